"""Gradient accumulation: two micro-batches a step, then clipping and AdamW."""

import torch
from torch import nn


def build_model(width):
    layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
    return nn.Sequential(nn.Linear(64, width), nn.TransformerEncoder(layer, 2), nn.Linear(width, 64))


def train(model, optimizer, micro_batches, accumulate, device):
    criterion = nn.MSELoss()
    optimizer.zero_grad()
    for index, (inputs, targets) in enumerate(micro_batches, start=1):
        outputs = model(inputs.to(device))
        loss = criterion(outputs, targets.to(device)) / accumulate
        loss.backward()
        if index % accumulate == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(f"micro-batch {index}: loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch, length = (32, 2, 8) if tiny else (512, 16, 256)
    model = build_model(width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    micro_batches = [(torch.randn(batch, length, 64), torch.randn(batch, length, 64)) for _ in range(8)]
    train(model, optimizer, micro_batches, accumulate=2, device=device)
    snapshot()
