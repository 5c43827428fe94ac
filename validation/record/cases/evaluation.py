"""Two epochs of training with an evaluation under no_grad after each, at a larger batch."""

import torch
from torch import nn


def build_model(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"training loss {loss.item():.4f}")


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = 0
    predictions = []
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        logits = model(images)
        correct += (logits.argmax(dim=1) == labels).sum().item()
        predictions.append(logits.argmax(dim=1).cpu())
    print(f"{correct} right of {sum(len(labels) for labels in predictions)}")


def make_loader(batch, side, batches):
    return [(torch.randn(batch, 3, side, side), torch.randint(0, 10, (batch,))) for _ in range(batches)]


def main(device, tiny, snapshot):
    width, batch, side = (4, 2, 16) if tiny else (64, 32, 64)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    training, validation = make_loader(batch, side, 4), make_loader(2 * batch, side, 3)
    for _ in range(2):
        train(model, optimizer, training, device)
        evaluate(model, validation, device)
    snapshot()
