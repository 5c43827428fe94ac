"""ResNet-18 on small images with SGD, momentum and weight decay."""

import torch
from torch import nn
from torchvision.models import resnet18


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    batch, side, steps = (2, 32, 2) if tiny else (64, 96, 4)
    model = resnet18(num_classes=100).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    loader = [(torch.randn(batch, 3, side, side), torch.randint(0, 100, (batch,))) for _ in range(steps)]
    train(model, optimizer, loader, device)
    snapshot()
