"""Incident: bf16 logits over a vocabulary of 128,256 are cast to fp32 at once; that transient is the peak."""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def compute_loss(logits, tokens):
    logits = logits.float()
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def train(model, optimizer, batches, device):
    for tokens in batches:
        tokens = tokens.to(device)
        optimizer.zero_grad()
        logits = model(tokens)
        loss = compute_loss(logits, tokens)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    vocabulary, width, batch, length = (500, 16, 2, 8) if tiny else (128256, 128, 2, 512)
    model = LanguageModel(vocabulary, width).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [torch.randint(0, vocabulary, (batch, length)) for _ in range(5)]
    train(model, optimizer, batches, device)
    snapshot()
