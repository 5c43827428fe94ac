"""Incident: two leaks at once, of different size and place: kept graphs and kept features."""

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.head = nn.Linear(width, 10)

    def forward(self, inputs):
        features = self.encoder(inputs)
        return features, self.head(features)


def consistency(model, inputs):
    noisy = inputs + 0.1 * torch.randn_like(inputs)
    return nn.functional.mse_loss(model(noisy)[0], model(inputs)[0].detach())


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    drift = 0
    bank = []
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        features, logits = model(inputs)
        loss = criterion(logits, labels)
        loss.backward()
        optimizer.step()
        drift = drift + consistency(model, inputs)
        bank.append(features.detach())
    return drift, bank


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (1024, 2048)
    model = Network(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = [(torch.randn(batch, width), torch.randint(0, 10, (batch,))) for _ in range(8)]
    drift, bank = train(model, optimizer, loader, device)
    print(f"drift {drift.item():.4f}, {len(bank)} feature batches")
    snapshot()
