"""torch.cuda.empty_cache() between training and evaluation, as many notebooks do."""

import torch
from torch import nn


def build_model(width):
    layers = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


def train(model, optimizer, images, labels, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


@torch.no_grad()
def evaluate(model, images):
    return [model(chunk).argmax(dim=1).cpu() for chunk in images.split(16)]


def main(device, tiny, snapshot):
    width, batch, side = (4, 4, 16) if tiny else (64, 64, 64)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        images = torch.randn(batch, 3, side, side).to(device)
        labels = torch.randint(0, 10, (batch,)).to(device)
        train(model, optimizer, images, labels, steps=2)
        torch.cuda.empty_cache()
        evaluate(model, images)
        del images, labels
        torch.cuda.empty_cache()
    snapshot()
