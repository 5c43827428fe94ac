"""Incident: foreach Adam's temporaries, one more copy of all parameters, set the peak.

The fix: `fused=True` or `foreach=False`.
"""

import torch
from torch import nn


def build_model(width):
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(4)], nn.Linear(width, 10))


def train(model, optimizer, inputs, labels, steps):
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch = (32, 4) if tiny else (3072, 64)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, steps=6)
    snapshot()
