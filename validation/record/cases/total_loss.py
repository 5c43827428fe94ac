"""No incident: `total = total + loss` after an ordinary backward pass.

backward() has released what the graph had saved; the graph's nodes that stay are host memory. A
tool that calls this a leak of GPU memory is wrong. The counterpart of `leak_graph`.
"""

import torch
from torch import nn


def build_model(width):
    layers = []
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    total = 0
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        total = total + loss
    return total / len(loader)


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (1024, 2048)
    model = build_model(width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = [(torch.randn(batch, width), torch.randint(0, 10, (batch,))) for _ in range(8)]
    average = train(model, optimizer, loader, device)
    print(f"average loss {average.item():.4f}")
    snapshot()
