"""Models with custom autograd functions. Captures them, or measures them on a GPU:

python make.py capture       # writes *.vramfit beside this file
python make.py measure NAME fp32|amp-bf16
"""

import contextlib
import sys
from pathlib import Path

import torch
from torch import nn


class Gated(torch.autograd.Function):
    """Saves a tensor that only its forward makes."""

    @staticmethod
    def forward(ctx, x, weight):
        gate = torch.sigmoid(x)
        ctx.save_for_backward(x, gate, weight)
        return x * gate * weight

    @staticmethod
    def backward(ctx, gradient):
        x, gate, weight = ctx.saved_tensors
        scaled = gradient * weight
        inner = gate * (1 + x * (1 - gate))
        of_x = scaled * inner
        of_weight = (gradient * x * gate).sum((0, 1))
        return of_x, of_weight


class Exponential(torch.autograd.Function):
    """Holds its input as an attribute of the context and computes the rest again."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.x = x
        ctx.factor = factor
        return torch.exp(x) * factor

    @staticmethod
    def backward(ctx, gradient):
        again = torch.exp(ctx.x)
        again = again * ctx.factor
        return gradient * again, None


class Listed(torch.autograd.Function):
    """Has tensors in a list, and a result that nobody uses: its gradient is zeros."""

    @staticmethod
    def forward(ctx, tensors, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.more = tensors[0] + 1
        return tensors[0] * x * weight, x * 2

    @staticmethod
    def backward(ctx, gradient, unused):
        x, weight = ctx.saved_tensors
        return None, gradient * weight + unused * 2, (gradient * x).sum((0, 1))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 256)
        self.scale = nn.Parameter(torch.ones(256))
        self.last = nn.Linear(256, 32)

    def forward(self, x):
        return self.last(self.apply_functions(self.first(x)))


class Two(Model):
    def apply_functions(self, x):
        x = Gated.apply(x, self.scale)
        return Exponential.apply(x, 2.0)


class InList(Model):
    def apply_functions(self, x):
        return Listed.apply([x, self.scale], x, self.scale)[0]


MODELS = {"two": Two, "in_list": InList}


def loss(outputs, _):
    return outputs.square().mean()


def capture():
    import vramfit

    wanted = {("fp32", "train"), ("amp-bf16", "train")}
    for name, model in MODELS.items():
        vramfit.capture(model(), torch.randn(4, 100, 64), Path(__file__).with_name(f"{name}.vramfit"), loss=loss, only=wanted)


def measure(name, precision):
    model = MODELS[name]().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.randn(64, 100, 64).cuda()
        torch.cuda.reset_peak_memory_stats()
        with torch.autocast("cuda", torch.bfloat16) if precision == "amp-bf16" else contextlib.nullcontext():
            outputs = model(x)
            value = loss(outputs, None)
        print("forward", torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        torch.cuda.reset_peak_memory_stats()
        value.backward()
        print("backward", torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        optimizer.step()
    print("reserved", torch.cuda.max_memory_reserved())


if __name__ == "__main__":
    {"capture": capture, "measure": measure}[sys.argv[1]](*sys.argv[2:])
