"""Recorded with context=None: the events carry no stacks at all. The training leaks its outputs."""

import torch
from torch import nn

HISTORY = {"context": None}


def train(model, optimizer, inputs, targets, steps):
    history = []
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = nn.functional.mse_loss(outputs, targets)
        loss.backward()
        optimizer.step()
        history.append(outputs)
    print(f"loss {loss.item():.4f}")
    return history


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (1024, 4096)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width).to(device)
    targets = torch.randn(batch, width).to(device)
    history = train(model, optimizer, inputs, targets, steps=8)
    print(f"{len(history)} outputs kept")
    snapshot()
