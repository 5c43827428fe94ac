"""Recording starts when the model is built and one step done: many blocks are older than the history."""

import torch
from torch import nn

RECORDS_ITSELF = True


def build_model(width):
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Linear(width, 10))


def train(model, optimizer, inputs, labels, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).mean(dim=1), labels)
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, length = (16, 2, 8) if tiny else (384, 16, 256)
    model = build_model(width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, length, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, steps=1)
    if device == "cuda":
        torch.cuda.memory._record_memory_history(stacks="python")
    train(model, optimizer, inputs, labels, steps=3)
    snapshot()
