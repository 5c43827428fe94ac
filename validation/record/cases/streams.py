"""A prefetcher on a side stream and metrics on another, both with record_stream.

Their blocks are freed in Python before the other stream is done with them, so free_completed comes
later than free_requested. `torch.cuda._sleep` stands in for kernels that take long.
"""

import torch
from torch import nn

NEEDS_CUDA = True


class Prefetcher:
    def __init__(self, loader, device):
        self.loader = iter(loader)
        self.device = device
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        self.upcoming = next(self.loader, None)
        if self.upcoming is not None:
            with torch.cuda.stream(self.stream):
                self.upcoming = [tensor.to(self.device, non_blocking=True) for tensor in self.upcoming]

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.upcoming
        if batch is not None:
            for tensor in batch:
                tensor.record_stream(torch.cuda.current_stream())
            self.preload()
        return batch


def accumulate_metrics(logits, stream, totals):
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        totals += logits.softmax(dim=1).sum(dim=0)
    logits.record_stream(stream)


def train(model, optimizer, loader, device, totals):
    criterion = nn.CrossEntropyLoss()
    prefetcher = Prefetcher(loader, device)
    metrics_stream = torch.cuda.Stream()
    batch = prefetcher.next()
    while batch is not None:
        images, labels = batch
        optimizer.zero_grad()
        logits = model(images)
        loss = criterion(logits, labels)
        accumulate_metrics(logits.detach(), metrics_stream, totals)
        loss.backward()
        optimizer.step()
        batch = prefetcher.next()
    torch.cuda.current_stream().wait_stream(metrics_stream)
    print(f"loss {loss.item():.4f}")


def main(device, tiny, snapshot):
    width, batch = (64, 8) if tiny else (2048, 1024)
    model = nn.Sequential(nn.Linear(1024, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1000))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = [
        (torch.randn(batch, 1024).pin_memory(), torch.randint(0, 1000, (batch,)).pin_memory()) for _ in range(10)
    ]
    totals = torch.zeros(1000, device=device)
    train(model, optimizer, loader, device, totals)
    snapshot()
