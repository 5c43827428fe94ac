"""A plain convolution, ReLU, pooling network; every batch is copied to the GPU as a data loader does."""

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classifier = nn.Linear(4 * width * 16, 100)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, side = (4, 2, 16) if tiny else (32, 64, 64)
    model = Network(width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = [(torch.randn(batch, 3, side, side), torch.randint(0, 100, (batch,))) for _ in range(6)]
    train(model, optimizer, loader, device)
    snapshot()
