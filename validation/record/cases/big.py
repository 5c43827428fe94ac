"""Many small steps, about 200,000 events: for the timeline page. Not committed."""

import torch
from torch import nn


def build_model(width):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def train(model, optimizer, inputs, labels, steps):
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot, steps=2400):
    width, batch, steps = (32, 8, 4) if tiny else (1024, 512, steps)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, steps)
    snapshot()
