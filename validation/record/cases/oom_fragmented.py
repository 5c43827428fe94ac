"""Incident: out of memory although enough bytes are free; expandable_segments:True lets it through.

Long and short batches alternate. A short batch's activations share the segments of the long ones
before it, next to the features that the hooks keep. When the activations are gone, those features
pin their segments: they can be neither returned nor used for the next, longer batch.
"""

import torch
from torch import nn

CAP_MIB = 2250


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + nn.functional.gelu(self.project(self.norm(hidden)))


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, hidden):
        return self.head(self.blocks(hidden).mean(dim=1))


class FeatureBank:
    """Keeps the mean activation of every layer, to look at their drift after the training."""

    def __init__(self, model):
        self.features = []
        for block in model.blocks:
            for layer in (block.norm, block.project, block):
                layer.register_forward_hook(self.collect)

    def collect(self, layer, inputs, output):
        self.features.append(output.detach().mean(dim=1))


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    for inputs, labels in loader:
        inputs, labels = inputs.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"length {inputs.shape[1]}: loss {loss.item():.4f}")


def make_loader(batch, lengths, width):
    for length in lengths:
        yield torch.randn(batch, length, width), torch.randint(0, 10, (batch,))


def main(device, tiny, snapshot):
    width, batch = (16, 2) if tiny else (1024, 512)
    model = Encoder(width, depth=6).to(device)
    bank = FeatureBank(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(model, optimizer, make_loader(batch, [32, 15, 34, 16, 36], width), device)
    print(f"{len(bank.features)} features kept")
    snapshot()
