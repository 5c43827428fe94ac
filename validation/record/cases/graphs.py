"""A whole training step captured as a CUDA graph: its memory lives in a private pool."""

import torch
from torch import nn

NEEDS_CUDA = True


def step(model, optimizer, criterion, inputs, targets):
    optimizer.zero_grad(set_to_none=True)
    outputs = model(inputs)
    loss = criterion(outputs, targets)
    loss.backward()
    optimizer.step()
    return outputs, loss


def warm_up(model, optimizer, criterion, inputs, targets):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(model, optimizer, criterion, inputs, targets)
    torch.cuda.current_stream().wait_stream(stream)


def capture(model, optimizer, criterion, inputs, targets):
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        outputs, loss = step(model, optimizer, criterion, inputs, targets)
    return graph, outputs, loss


def train(graph, inputs, targets, batches):
    for new_inputs, new_targets in batches:
        inputs.copy_(new_inputs)
        targets.copy_(new_targets)
        graph.replay()


def main(device, tiny, snapshot):
    width, batch = (64, 8) if tiny else (2048, 1024)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.MSELoss()
    inputs = torch.randn(batch, width, device=device)
    targets = torch.randn(batch, width, device=device)
    warm_up(model, optimizer, criterion, inputs, targets)
    graph, outputs, loss = capture(model, optimizer, criterion, inputs, targets)
    batches = [(torch.randn(batch, width), torch.randn(batch, width)) for _ in range(4)]
    train(graph, inputs, targets, batches)
    with torch.no_grad():
        error = (model(inputs) - targets).abs().mean()
    print(f"loss {loss.item():.4f}, outputs {tuple(outputs.shape)}, error {error.item():.4f}")
    snapshot()
