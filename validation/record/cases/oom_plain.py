"""Incident: the model with its Adam states is simply too big for the cap."""

import torch
from torch import nn

CAP_MIB = 700


def build_model(width):
    layers = []
    for _ in range(6):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train(model, optimizer, inputs, labels, steps):
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (3072, 2048)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, steps=3)
    snapshot()
