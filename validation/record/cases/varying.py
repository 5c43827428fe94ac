"""Batch and length change with every step, as with padded text: the allocator fragments."""

import random

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def make_batches(vocabulary, batch, length, steps):
    generator = random.Random(0)
    for _ in range(steps):
        rows = generator.randint(batch // 2, batch)
        columns = generator.randint(length // 4, length)
        yield torch.randint(0, vocabulary, (rows, columns))


def train(model, optimizer, batches, device):
    criterion = nn.CrossEntropyLoss()
    for tokens in batches:
        tokens = tokens.to(device)
        logits = model(tokens[:, :-1])
        loss = criterion(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{tuple(tokens.shape)}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    vocabulary, width, batch, length = (100, 16, 4, 16) if tiny else (16000, 256, 24, 384)
    model = LanguageModel(vocabulary, width, layers=2).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train(model, optimizer, make_batches(vocabulary, batch, length, steps=8), device)
    snapshot()
