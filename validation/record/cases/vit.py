"""A small vision transformer with AdamW."""

import torch
from torch import nn
from torchvision.models import VisionTransformer


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    model.train()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, steps = (32, 2, 2) if tiny else (384, 64, 3)
    model = VisionTransformer(
        image_size=64,
        patch_size=8,
        num_layers=4,
        num_heads=4,
        hidden_dim=width,
        mlp_dim=4 * width,
        num_classes=100,
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    loader = [(torch.randn(batch, 3, 64, 64), torch.randint(0, 100, (batch,))) for _ in range(steps)]
    train(model, optimizer, loader, device)
    snapshot()
