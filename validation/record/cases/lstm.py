"""An LSTM language model; the hidden state is carried on, detached, from batch to batch."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, state):
        outputs, state = self.recurrent(self.embedding(tokens), state)
        return self.head(outputs), state


def train(model, optimizer, batches, device):
    criterion = nn.CrossEntropyLoss()
    state = None
    for tokens, targets in batches:
        tokens, targets = tokens.to(device), targets.to(device)
        optimizer.zero_grad()
        logits, state = model(tokens, state)
        state = tuple(tensor.detach() for tensor in state)
        loss = criterion(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    vocabulary, width, batch, length = (100, 16, 2, 8) if tiny else (10000, 512, 64, 64)
    model = LanguageModel(vocabulary, width).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = [
        (torch.randint(0, vocabulary, (batch, length)), torch.randint(0, vocabulary, (batch, length)))
        for _ in range(6)
    ]
    train(model, optimizer, batches, device)
    snapshot()
