"""MAML on sine waves: the inner loop's gradients are differentiated."""
import math
import random

import torch
import torch.nn.functional as F

random.seed(0)
device = "cuda"
WIDTH, TASKS, SHOTS, INNER = 256, 8, 10, 3


def init(*shape):
    return (torch.randn(*shape, device=device) / math.sqrt(shape[-1])).requires_grad_()


params = [init(WIDTH, 1), init(WIDTH), init(WIDTH, WIDTH), init(WIDTH), init(1, WIDTH), init(1)]
meta = torch.optim.Adam(params, lr=1e-3)


def net(x, weights):
    x = F.relu(F.linear(x, weights[0], weights[1]))
    x = F.relu(F.linear(x, weights[2], weights[3]))
    return F.linear(x, weights[4], weights[5])


def task():
    amplitude, phase = random.uniform(0.1, 5), random.uniform(0, math.pi)

    def draw(count):
        x = torch.rand(count, 1, device=device) * 10 - 5
        return x, amplitude * torch.sin(x + phase)

    return draw


for iteration in range(5):
    meta.zero_grad()
    total = 0.0
    for _ in range(TASKS):
        draw = task()
        fast = params
        x, y = draw(SHOTS)
        for _ in range(INNER):
            loss = F.mse_loss(net(x, fast), y)
            grads = torch.autograd.grad(loss, fast, create_graph=True)
            fast = [w - 0.01 * g for w, g in zip(fast, grads)]
        x, y = draw(SHOTS)
        outer = F.mse_loss(net(x, fast), y) / TASKS
        outer.backward()
        total += outer.item()
    meta.step()
    print("iteration", iteration, "loss", total)
