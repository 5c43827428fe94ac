"""MobileNet v2 (depthwise convolutions, in-place ReLU6) with RMSprop."""

import torch
from torch import nn
from torchvision.models import mobilenet_v2


def train_one_epoch(model, optimizer, criterion, loader, device):
    model.train()
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, side, steps = (2, 32, 2) if tiny else (48, 128, 3)
    model = mobilenet_v2(num_classes=50).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    loader = [(torch.randn(batch, 3, side, side), torch.randint(0, 50, (batch,))) for _ in range(steps)]
    train_one_epoch(model, optimizer, nn.CrossEntropyLoss(), loader, device)
    snapshot()
