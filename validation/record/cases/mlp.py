"""A multi-layer perceptron with Adam: the smallest whole training."""

import torch
from torch import nn


def build_model(width):
    return nn.Sequential(
        nn.Linear(784, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, 10),
    )


def train(model, optimizer, images, labels, steps):
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        optimizer.zero_grad()
        logits = model(images)
        loss = criterion(logits, labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch = (64, 8) if tiny else (2048, 512)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    images = torch.randn(batch, 784).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, images, labels, steps=6)
    snapshot()
