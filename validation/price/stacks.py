"""The CPU time of an operator within a network: stacks of thirty layers, each with its own weights.

In a loop over one call everything is in the caches, but a network calls each layer once. A stack measures the cost per layer,
forward and backward, including gradient sinks.
"""

import statistics
import time

import torch
from torch import nn
from torch.nn import functional

LAYERS = 30
REPEATS = 7


class Call(nn.Module):
    """A function as a module, with a weight of its own where it takes one."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.weights = nn.ParameterList(torch.randn(*shape) * 0.1 for shape in shapes)

    def forward(self, x):
        return self.function(x, *self.weights)


class Plain(nn.Module):
    """A function that its caller calls without a module around it."""

    def __init__(self, function):
        super().__init__()
        self.function = function


def frozen(module):
    return module.requires_grad_(False)


TOKENS, IMAGE = (4, 16, 64), (4, 16, 8, 8)
SHAPES = {"tokens": TOKENS, "image": IMAGE}


def heads(x):
    return x.view(4, 16, 8, 8).transpose(1, 2)


def kinds():
    """name: (shape of what goes through, what makes a layer)"""
    return {
        "linear": ("tokens", lambda: nn.Linear(64, 64)),
        "linear_no_bias": ("tokens", lambda: nn.Linear(64, 64, bias=False)),
        "linear_frozen": ("tokens", lambda: frozen(nn.Linear(64, 64))),
        "layer_norm": ("tokens", lambda: nn.LayerNorm(64)),
        "layer_norm_frozen": ("tokens", lambda: frozen(nn.LayerNorm(64))),
        "rms_norm": ("tokens", lambda: nn.RMSNorm(64)),
        "identity": ("tokens", nn.Identity),
        "gelu": ("tokens", nn.GELU),
        "silu": ("tokens", nn.SiLU),
        "relu": ("tokens", nn.ReLU),
        "tanh": ("tokens", nn.Tanh),
        "dropout": ("tokens", lambda: nn.Dropout(0.1)),
        "softmax": ("tokens", lambda: nn.Softmax(-1)),
        "add_function": ("tokens", lambda: Plain(lambda x: x + 1.0)),
        "mul_function": ("tokens", lambda: Plain(lambda x: x * 0.5)),
        "neg_function": ("tokens", lambda: Plain(torch.neg)),
        "pow_function": ("tokens", lambda: Plain(lambda x: x.pow(2))),
        "residual_function": ("tokens", lambda: Plain(lambda x: x + x)),
        "mul_weight": ("tokens", lambda: Call(torch.mul, (64,))),
        "mul_full": ("tokens", lambda: Call(torch.mul, TOKENS)),
        "mul_full_frozen": ("tokens", lambda: frozen(Call(torch.mul, TOKENS))),
        "add_weight": ("tokens", lambda: Call(torch.add, (64,))),
        "views_function": ("tokens", lambda: Plain(lambda x: heads(x).transpose(1, 2).view(4, 16, 64))),
        "unsqueeze_function": ("tokens", lambda: Plain(lambda x: x.unsqueeze(0).squeeze(0))),
        "contiguous_function": ("tokens", lambda: Plain(lambda x: heads(x).contiguous().view(4, 16, 64))),
        "cat_function": ("tokens", lambda: Plain(lambda x: torch.cat([x[..., :32], x[..., 32:]], -1))),
        "casts_function": ("tokens", lambda: Plain(lambda x: x.to(torch.bfloat16).to(torch.float32))),
        "mean_function": ("tokens", lambda: Plain(lambda x: x * x.mean(-1, keepdim=True))),
        "matmul": ("tokens", lambda: Call(torch.matmul, (4, 64, 64))),
        "attention": (
            "tokens",
            lambda: Call(
                lambda x, k, v: functional.scaled_dot_product_attention(heads(x), k, v).reshape(4, 16, 64),
                (4, 8, 16, 8),
                (4, 8, 16, 8),
            ),
        ),
        "conv2d": ("image", lambda: nn.Conv2d(16, 16, 3, padding=1, bias=False)),
        "conv2d_bias": ("image", lambda: nn.Conv2d(16, 16, 3, padding=1)),
        "conv_transpose2d": ("image", lambda: nn.ConvTranspose2d(16, 16, 3, padding=1)),
        "batch_norm": ("image", lambda: nn.BatchNorm2d(16)),
        "group_norm": ("image", lambda: nn.GroupNorm(4, 16)),
        "max_pool": ("image", lambda: nn.MaxPool2d(3, 1, 1)),
        "avg_pool": ("image", lambda: nn.AvgPool2d(3, 1, 1)),
        "block": ("tokens", lambda: nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))),
        "image_block": ("image", lambda: nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())),
    }


UNDER_AUTOCAST = ("linear", "linear_no_bias", "gelu", "layer_norm", "add_function", "conv2d", "batch_norm", "block", "image_block")


def functions(layers):
    """What a caller calls: modules, or the functions themselves."""
    return [layer.function if isinstance(layer, Plain) else layer for layer in layers]


def measure(clock, shape, make, is_autocast):
    layers = [make().to(clock.device) for _ in range(LAYERS)]
    calls = functions(layers)
    parameters = [weight for layer in layers for weight in layer.parameters()]
    held = torch.randn(*shape, device=clock.device).requires_grad_()
    seconds = ([], [])
    for _ in range(REPEATS):
        for weight in parameters:
            weight.grad = None
        held.grad = None
        first = held * 1.0
        clock.synchronize()
        with torch.autocast(clock.device, dtype=torch.bfloat16, enabled=is_autocast):
            began = time.perf_counter()
            x = first
            for call in calls:
                x = call(x)
            middle = time.perf_counter()
        gradient = torch.ones_like(x)
        clock.synchronize()
        ready = time.perf_counter()
        x.backward(gradient)
        ended = time.perf_counter()
        clock.synchronize()
        seconds[0].append(middle - began)
        seconds[1].append(ended - ready)
        del x, first
    return [statistics.median(times[1:]) / LAYERS * 1e6 for times in seconds]


def rows(clock, is_late):
    """{name, autocast, forward, backward}: microseconds a layer, the fixed cost of a backward call shared out."""
    found = []
    for is_autocast in (False, True):
        for name, (shape, make) in kinds().items():
            if is_late() or (is_autocast and name not in UNDER_AUTOCAST):
                continue
            row = {"op": name, "autocast": is_autocast}
            try:
                row["forward"], row["backward"] = measure(clock, SHAPES[shape], make, is_autocast)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[:200]
            found.append(row)
    return found
