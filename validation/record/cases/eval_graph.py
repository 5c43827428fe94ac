"""Incident: validation without torch.no_grad(); the predictions kept for the metric keep all activations.

The fix: `@torch.no_grad()` on `validate`.
"""

import torch
from torch import nn


def build_model(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * width, 10),
    )


def train(model, optimizer, loader, device):
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"training loss {loss.item():.4f}")


def validate(model, loader, device):
    model.eval()
    predictions, references = [], []
    for images, labels in loader:
        logits = model(images.to(device))
        predictions.append(logits)
        references.append(labels)
    predictions = torch.cat(predictions)
    accuracy = (predictions.argmax(dim=1).cpu() == torch.cat(references)).float().mean()
    print(f"accuracy {accuracy.item():.4f}")


def make_loader(batch, side, batches):
    return [(torch.randn(batch, 3, side, side), torch.randint(0, 10, (batch,))) for _ in range(batches)]


def main(device, tiny, snapshot):
    width, batch, side = (4, 2, 16) if tiny else (48, 32, 64)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    training, validation = make_loader(batch, side, 4), make_loader(batch, side, 6)
    for _ in range(2):
        train(model, optimizer, training, device)
        validate(model, validation, device)
    snapshot()
