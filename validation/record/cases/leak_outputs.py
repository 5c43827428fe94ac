"""Incident: the logits of every batch are kept on the GPU for a metric computed later.

The fix: `history.append(logits.detach().cpu())`, or the metric itself.
"""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary, width, tags):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=2 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    history = []
    for tokens, tags in loader:
        tokens, tags = tokens.to(device), tags.to(device)
        optimizer.zero_grad()
        logits = model(tokens)
        loss = criterion(logits.flatten(0, 1), tags.flatten())
        loss.backward()
        optimizer.step()
        history.append(logits)
        print(f"loss {loss.item():.4f}")
    return history


def main(device, tiny, snapshot):
    width, tags, batch, length = (16, 20, 2, 8) if tiny else (256, 2000, 16, 256)
    model = Tagger(8000, width, tags).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = [
        (torch.randint(0, 8000, (batch, length)), torch.randint(0, tags, (batch, length))) for _ in range(8)
    ]
    history = train(model, optimizer, loader, device)
    print(f"{len(history)} batches kept")
    snapshot()
