"""fp16 autocast with a GradScaler on a convolutional network."""

import torch
from torch import nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def build_model(width):
    return nn.Sequential(
        block(3, width),
        block(width, 2 * width),
        block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 100),
    )


def train(model, optimizer, scaler, loader, device):
    criterion = nn.CrossEntropyLoss()
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            logits = model(images)
            loss = criterion(logits, labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, side = (4, 2, 32) if tiny else (64, 64, 128)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device, init_scale=128)
    loader = [(torch.randn(batch, 3, side, side), torch.randint(0, 100, (batch,))) for _ in range(5)]
    train(model, optimizer, scaler, loader, device)
    snapshot()
