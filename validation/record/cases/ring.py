"""A history of 1,500 entries only: the ring buffer has lost the beginning when the snapshot is taken."""

import torch
from torch import nn

HISTORY = {"max_entries": 1500}


def build_model(width):
    layers = []
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train(model, optimizer, inputs, labels, steps):
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (1024, 2048)
    model = build_model(width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, steps=12)
    snapshot()
