"""Sentences of different lengths, padded to the longest of each batch."""
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    def __init__(self, count=192, vocabulary=5000):
        rng = random.Random(3)
        self.rows = [([rng.randrange(1, vocabulary) for _ in range(rng.randrange(5, 60))], rng.randrange(4)) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        tokens, label = self.rows[i]
        return torch.tensor(tokens), torch.tensor(label)


def collate(batch):
    tokens, labels = zip(*batch)
    return pad_sequence(tokens, batch_first=True), torch.stack(labels)


class Classifier(nn.Module):
    def __init__(self, vocabulary=5000, width=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 512, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(width, 4)

    def forward(self, tokens):
        padding = tokens == 0
        hidden = self.encoder(self.embedding(tokens), src_key_padding_mask=padding)
        hidden = hidden.masked_fill(padding.unsqueeze(-1), 0.0)
        return self.out(hidden.sum(1) / (~padding).sum(1, keepdim=True))


device = "cuda"
model = Classifier().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
loader = DataLoader(Sentences(), batch_size=24, collate_fn=collate)
for epoch in range(2):
    correct = 0
    for tokens, labels in loader:
        tokens, labels = tokens.to(device), labels.to(device)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        correct += (logits.argmax(-1) == labels).sum().item()
    print("epoch", epoch, "accuracy", correct / len(loader.dataset))
