"""record_function ranges and memory metadata, which the snapshot holds as annotations."""

import torch
from torch import nn
from torch.profiler import record_function

HISTORY = {"global_record_annotations": True}


def train(model, optimizer, inputs, labels, device, steps):
    for step in range(steps):
        if device == "cuda":
            torch.cuda.memory._set_memory_metadata(f"step {step}")
        optimizer.zero_grad()
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
        print(f"step {step}: loss {loss.item():.4f}")
    if device == "cuda":
        torch.cuda.memory._set_memory_metadata("")


def main(device, tiny, snapshot):
    width, batch = (32, 8) if tiny else (1024, 1024)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, width).to(device)
    labels = torch.randint(0, 10, (batch,)).to(device)
    train(model, optimizer, inputs, labels, device, steps=5)
    snapshot()
