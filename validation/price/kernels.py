"""Operators that move memory: each over sizes and types, forward and backward."""

import torch
from torch.nn import functional

EXPONENTS = (10, 14, 18, 20, 22, 24, 26, 28)
TINY_EXPONENTS = (10, 12)
WIDTH = 1024


def leaf(*shape, dtype, **arguments):
    return torch.randn(*shape, dtype=dtype, **arguments).requires_grad_()


def flat(function):
    """Of one tensor, whatever its shape."""

    def make(elements, dtype):
        x = leaf(elements // WIDTH, WIDTH, dtype=dtype)
        return lambda: function(x), [x]

    return make


def pair(function):
    def make(elements, dtype):
        x, y = (leaf(elements // WIDTH, WIDTH, dtype=dtype) for _ in range(2))
        return lambda: function(x, y), [x, y]

    return make


def broadcast(function):
    """With a row that every row gets, whose gradient is a sum."""

    def make(elements, dtype):
        x, y = leaf(elements // WIDTH, WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype)
        return lambda: function(x, y), [x, y]

    return make


def cast(to):
    def make(elements, dtype):
        x = leaf(elements // WIDTH, WIDTH, dtype=dtype)
        return lambda: x.to(to), [x]

    return make


def layer_norm(elements, dtype):
    x, weight, bias = leaf(elements // WIDTH, WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype)
    return lambda: functional.layer_norm(x, (WIDTH,), weight, bias), [x, weight, bias]


def rms_norm(elements, dtype):
    x, weight = leaf(elements // WIDTH, WIDTH, dtype=dtype), leaf(WIDTH, dtype=dtype)
    return lambda: functional.rms_norm(x, (WIDTH,), weight), [x, weight]


def softmax(elements, dtype):
    x = leaf(elements // 256, 256, dtype=dtype)
    return lambda: functional.softmax(x, -1), [x]


def cross_entropy(classes):
    def make(elements, dtype):
        rows = max(elements // classes, 1)
        x = leaf(rows, classes, dtype=dtype)
        target = torch.randint(0, classes, (rows,))
        return lambda: functional.cross_entropy(x, target), [x]

    return make


def log_softmax(elements, dtype):
    x = leaf(max(elements // 32000, 1), 32000, dtype=dtype)
    return lambda: functional.log_softmax(x, -1), [x]


def nll_loss(elements, dtype):
    rows = max(elements // 32000, 1)
    x = leaf(rows, 32000, dtype=dtype)
    target = torch.randint(0, 32000, (rows,))
    return lambda: functional.nll_loss(x, target), [x]


def embedding(elements, dtype):
    """Of 512 rows, so that the gradient's zeros count for little."""
    weight = leaf(512, WIDTH, dtype=dtype)
    index = torch.randint(0, 512, (elements // WIDTH,))
    return lambda: functional.embedding(index, weight), [weight]


def heads(elements, dtype):
    """From (batch, heads, tokens, 64) to (batch, tokens, heads, 64) in memory: the copy after attention."""
    x = leaf(max(elements // (64 * 64 * 4), 1), 4, 64 if elements >= 1 << 14 else 4, 64, dtype=dtype)
    return lambda: x.transpose(1, 2).contiguous(), [x]


def images(elements, channels=64):
    """(batch, channels, side, side) of about as many elements."""
    side = 4 if elements < 1 << 18 else 16 if elements < 1 << 22 else 32
    return max(elements // (channels * side * side), 1), channels, side, side


def image(function, layout=torch.contiguous_format):
    def make(elements, dtype):
        x = torch.randn(images(elements), dtype=dtype).to(memory_format=layout).requires_grad_()
        return lambda: function(x), [x]

    return make


def batch_norm(layout):
    def make(elements, dtype):
        x = torch.randn(images(elements), dtype=dtype).to(memory_format=layout).requires_grad_()
        weight, bias, mean = (torch.ones(64) for _ in range(3))
        variance = torch.ones(64)
        weight.requires_grad_(), bias.requires_grad_()
        call = lambda: functional.batch_norm(x, mean, variance, weight, bias, True)  # noqa: E731
        return call, [x, weight, bias]

    return make


def group_norm(elements, dtype):
    x = leaf(*images(elements), dtype=dtype)
    weight, bias = leaf(64, dtype=dtype), leaf(64, dtype=dtype)
    return lambda: functional.group_norm(x, 8, weight, bias), [x, weight, bias]


def zeros(elements, dtype):
    device = torch.empty(0).device
    return lambda: torch.zeros(elements, dtype=dtype, device=device), []


def masked_fill(elements, dtype):
    x, mask = leaf(elements // WIDTH, WIDTH, dtype=dtype), torch.zeros(WIDTH, dtype=torch.bool)
    return lambda: x.masked_fill(mask, 0.0), [x]


def added_in_place(elements, dtype):
    x, y = (torch.randn(elements, dtype=dtype) for _ in range(2))
    return lambda: x.add_(y), []


CHANNELS_LAST = torch.channels_last
SPECS = {
    "add": pair(torch.add),
    "mul": pair(torch.mul),
    "div": pair(torch.div),
    "add_row": broadcast(torch.add),
    "mul_row": broadcast(torch.mul),
    "mul_scalar": flat(lambda x: x * 0.5),
    "neg": flat(torch.neg),
    "pow": flat(lambda x: x.pow(2)),
    "rsqrt": flat(torch.rsqrt),
    "cos": flat(torch.cos),
    "exp": flat(torch.exp),
    "tanh": flat(torch.tanh),
    "sigmoid": flat(torch.sigmoid),
    "relu": flat(torch.relu),
    "gelu": flat(functional.gelu),
    "gelu_tanh": flat(lambda x: functional.gelu(x, approximate="tanh")),
    "silu": flat(functional.silu),
    "hardswish": flat(functional.hardswish),
    "masked_fill": masked_fill,
    "dropout": flat(lambda x: functional.dropout(x, 0.1)),
    "to_half": cast(torch.bfloat16),
    "to_single": cast(torch.float32),
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "nll_loss": nll_loss,
    "cross_entropy": cross_entropy(1000),
    "cross_entropy_wide": cross_entropy(32000),
    "mse_loss": pair(functional.mse_loss),
    "embedding": embedding,
    "cat": pair(lambda x, y: torch.cat([x, y], -1)),
    "contiguous": heads,
    "to_channels_last": image(lambda x: x.contiguous(memory_format=CHANNELS_LAST)),
    "pad": image(lambda x: functional.pad(x, (1, 1, 1, 1))),
    "roll": image(lambda x: torch.roll(x, (2, 2), (2, 3))),
    "sum": flat(torch.sum),
    "sum_rows": flat(lambda x: x.sum(0)),
    "mean_last": flat(lambda x: x.mean(-1, keepdim=True)),
    "cumsum": flat(lambda x: x.cumsum(0)),
    "batch_norm": batch_norm(torch.contiguous_format),
    "batch_norm_last": batch_norm(CHANNELS_LAST),
    "group_norm": group_norm,
    "max_pool": image(lambda x: functional.max_pool2d(x, 3, 2, 1)),
    "max_pool_last": image(lambda x: functional.max_pool2d(x, 3, 2, 1), CHANNELS_LAST),
    "avg_pool": image(lambda x: functional.avg_pool2d(x, 2)),
    "adaptive_avg_pool": image(lambda x: functional.adaptive_avg_pool2d(x, 1)),
    "upsample_bilinear": image(lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear")),
    "upsample_nearest": image(lambda x: functional.interpolate(x, scale_factor=2, mode="nearest")),
    "zeros": zeros,
    "add_": added_in_place,
}
SINGLE_ONLY = ("to_half",)
HALF_ONLY = ("to_single",)
LARGE = ("add", "mul", "gelu", "relu", "dropout", "to_half", "layer_norm", "cross_entropy_wide", "batch_norm", "zeros")


def rows(clock, device, is_tiny, is_late):
    """{op, dtype, elements, forward, backward} in microseconds on the GPU."""
    exponents = TINY_EXPONENTS if is_tiny else EXPONENTS
    found = []
    for name, make in SPECS.items():
        for dtype in (torch.float32, torch.bfloat16):
            if (name in SINGLE_ONLY and dtype != torch.float32) or (name in HALF_ONLY and dtype != torch.bfloat16):
                continue
            for exponent in exponents:
                if is_late() or (exponent > 26 and name not in LARGE):
                    continue
                row = {"op": name, "dtype": str(dtype)[6:], "elements": 1 << exponent}
                try:
                    with torch.device(device):
                        call, inputs = make(1 << exponent, dtype)
                    row["forward"] = clock.gpu(call)
                    if inputs:
                        row["backward"] = clock.gpu_backward(call, inputs)
                except Exception as error:  # the rest goes on
                    row["error"] = f"{type(error).__name__}: {error}"[:200]
                found.append(row)
    return found
