"""A training with mistakes that lint finds. Its recording is train.vramfit, made in this folder with

    python -m vramfit run --through-eval --out train.vramfit train.py
"""

import torch
from torch import nn


def evaluate(model, batches):
    model.eval()
    outputs = []
    for x in batches:
        out = model(x.cuda())
        outputs.append(out)
    model.train()
    return outputs


def never_called(model):
    total = 0
    for _ in range(3):
        loss = model(torch.randn(8, 256).cuda()).sum()
        loss.backward()
        total += loss
    return total


def main():
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.MSELoss()
    losses = []
    kept = []
    history = 0
    for _ in range(8):
        x, y = torch.randn(512, 256).cuda(), torch.randn(512, 256).cuda()
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history += loss
        kept.append(out)
        losses.append(loss)
    evaluate(model, [torch.randn(512, 256) for _ in range(4)])


if __name__ == "__main__":
    main()
