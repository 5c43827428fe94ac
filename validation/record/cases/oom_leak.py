"""Incident: predictions kept on the GPU, until the cap is reached after some steps."""

import torch
from torch import nn

CAP_MIB = 640


class Tagger(nn.Module):
    def __init__(self, vocabulary, width, tags):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens):
        outputs, _ = self.recurrent(self.embedding(tokens))
        return self.head(outputs)


def train(model, optimizer, loader, device):
    criterion = nn.CrossEntropyLoss()
    history = []
    for tokens, tags in loader:
        tokens, tags = tokens.to(device), tags.to(device)
        logits = model(tokens)
        loss = criterion(logits.flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
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
        (torch.randint(0, 8000, (batch, length)), torch.randint(0, tags, (batch, length))) for _ in range(40)
    ]
    history = train(model, optimizer, loader, device)
    print(f"{len(history)} batches kept")
    snapshot()
