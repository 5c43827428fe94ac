"""bf16 autocast on PyTorch's own transformer encoder."""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, vocabulary, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 10)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)).mean(dim=1))


def train(model, optimizer, tokens, labels, device, steps):
    criterion = nn.CrossEntropyLoss()
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = criterion(model(tokens), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, length = (32, 2, 16) if tiny else (512, 32, 256)
    model = Classifier(10000, width, layers=4).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 10000, (batch, length)).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, tokens, labels, device, steps=3)
    snapshot()
