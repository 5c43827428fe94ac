"""The CPU time of a call: Python, the dispatcher, autograd's node, the launch. Tensors are tiny."""

import kernels
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

TINY = 1 << 10


DEVICE = "cuda"


def tensor(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, device=DEVICE).requires_grad_()


def views():
    """Operators that launch nothing."""
    return {
        "view": lambda x: x.view(-1),
        "reshape": lambda x: x.reshape(-1),
        "flatten": lambda x: x.flatten(),
        "transpose": lambda x: x.transpose(0, 1),
        "permute": lambda x: x.permute(1, 0),
        "unsqueeze": lambda x: x.unsqueeze(0),
        "squeeze": lambda x: x.squeeze(0),
        "expand": lambda x: x.expand(2, 32, 32),
        "select": lambda x: x.select(0, 0),
        "slice": lambda x: x[:, :16],
        "contiguous_no_copy": lambda x: x.contiguous(),
        "to_no_copy": lambda x: x.to(torch.float32),
        "dropout_off": lambda x: functional.dropout(x, 0.1, False),
    }


def products():
    x, weight, bias = (lambda: tensor(8, 16, 32)), (lambda: tensor(32, 32)), (lambda: tensor(32))
    image = lambda: tensor(2, 8, 8, 8)  # noqa: E731
    heads = lambda: tensor(2, 2, 16, 8)  # noqa: E731
    lstm = nn.LSTM(32, 32, batch_first=True, device=DEVICE)
    gru = nn.GRU(32, 32, batch_first=True, device=DEVICE)
    return {
        "linear": (lambda x, w, b: functional.linear(x, w, b), (x, weight, bias)),
        "linear_no_bias": (lambda x, w: functional.linear(x, w), (x, weight)),
        "matmul": (torch.matmul, (heads, lambda: tensor(2, 2, 8, 16))),
        "addmm": (lambda b, x, w: torch.addmm(b, x, w), (bias, lambda: tensor(16, 32), weight)),
        "attention": (functional.scaled_dot_product_attention, (heads, heads, heads)),
        "attention_half": (
            functional.scaled_dot_product_attention,
            tuple(lambda: tensor(2, 2, 16, 8, dtype=torch.bfloat16) for _ in range(3)),
        ),
        "conv2d": (lambda x, w: functional.conv2d(x, w, padding=1), (image, lambda: tensor(8, 8, 3, 3))),
        "conv2d_bias": (
            lambda x, w, b: functional.conv2d(x, w, b, padding=1),
            (image, lambda: tensor(8, 8, 3, 3), lambda: tensor(8)),
        ),
        "conv_transpose2d": (functional.conv_transpose2d, (image, lambda: tensor(8, 8, 2, 2), lambda: tensor(8))),
        "lstm": (lambda x: lstm(x)[0], (x,)),
        "gru": (lambda x: gru(x)[0], (x,)),
    }


class Nothing(nn.Module):
    def forward(self, x):
        return x


class Outer(nn.Module):
    """A module that calls one inside and keeps keyword arguments, as blocks do."""

    def __init__(self):
        super().__init__()
        self.inner = Nothing()

    def forward(self, x, mask=None, **others):
        return self.inner(x)


def row(name, forward=None, backward=None, leaves=0, **others):
    return {"op": name, "forward": forward, "backward": backward, "leaves": leaves, **others}


def operators(clock, is_late):
    found = []
    for name, function in views().items():
        x = tensor(32, 32)
        backward = clock.cpu_backward(lambda: (function(tensor(32, 32)), 1)) if function(x) is not x else 0.0
        found.append(row(name, clock.cpu(lambda: function(x)), backward, 1))
    for name, make in kernels.SPECS.items():
        if is_late():
            break
        try:
            dtype = torch.bfloat16 if name in kernels.HALF_ONLY else torch.float32
            with torch.device(DEVICE):
                call, inputs = make(TINY, dtype)
                backward = clock.cpu_backward(lambda: (make(TINY, dtype)[0](), 0)) if inputs else None
            found.append(row(name, clock.cpu(call), backward, len(inputs)))
        except Exception as error:
            found.append({"op": name, "error": f"{type(error).__name__}: {error}"[:200]})
    for name, (function, makers) in products().items():
        inputs = [make() for make in makers]
        backward = clock.cpu_backward(lambda: (function(*(make() for make in makers)), 0))
        found.append(row(name, clock.cpu(lambda: function(*inputs)), backward, len(makers)))
    return found


def shared(clock):
    """A chain whose weights are shared: the difference to separate leaves is the cost of a gradient sink."""
    x, y = tensor(32, 32), tensor(32, 32)
    fixed = torch.randn(32, 32, device=DEVICE)
    one = clock.cpu_backward(lambda: (tensor(32, 32) + fixed, 1))
    two = clock.cpu_backward(lambda: (tensor(32, 32) + tensor(32, 32), 2))
    again = []
    leaf = tensor(32, 32)
    for count in (1, 33):
        out = leaf
        for _ in range(count):
            out = out * 0.5
        gradient = torch.ones_like(out)
        again.append(clock.cpu(lambda: torch.autograd.grad(out, leaf, gradient, retain_graph=True), 20))
    return [
        row("gradient_sink", None, two - one),
        row("chain_mul_scalar", None, (again[1] - again[0]) / 32),
        row("backward_call", None, again[0]),
        row("no_grad_add", clock.cpu(torch.no_grad()(lambda: x + y))),
    ]


def regions(clock, inside, count=6):
    """Checkpointed regions of so many layers, and the same without checkpoints; times for each region."""
    layers = [nn.Sequential(*(nn.Linear(32, 32, device=DEVICE) for _ in range(inside))) for _ in range(count)]
    held = tensor(4, 32)

    def chain(is_checkpointed):
        out = held
        for layer in layers:
            out = checkpoint(layer, out, use_reentrant=False) if is_checkpointed else layer(out)
        return out

    found = []
    for is_checkpointed in (False, True):

        def whole():
            chain(is_checkpointed).sum().backward()
            for layer in layers:
                layer.zero_grad()

        forward = clock.cpu(lambda: chain(is_checkpointed), 5) / count
        name = f"checkpoint_{inside}" if is_checkpointed else f"checkpoint_{inside}_plain"
        found.append(row(name, forward, clock.cpu(whole, 5) / count - forward))
    return found


def modules(clock):
    x = tensor(32, 32)
    nothing, outer = Nothing(), Outer()
    inner, both = clock.cpu(lambda: nothing(x)), clock.cpu(lambda: outer(x, mask=None, other=1))
    found = [row("module", inner), row("module_around_module", both)]
    for inside in (1, 8):
        found += regions(clock, inside)
    for name, device in (("autocast_region", clock.device),):

        def region():
            with torch.autocast(device, dtype=torch.bfloat16):
                pass

        found.append(row(name, clock.cpu(region)))
    weight = tensor(32, 32)
    half, half_weight = x.detach().bfloat16().requires_grad_(), weight.detach().bfloat16().requires_grad_()
    outside = clock.cpu(lambda: functional.linear(half, half_weight))
    with torch.autocast(clock.device, dtype=torch.bfloat16):
        inside = clock.cpu(lambda: functional.linear(half, half_weight))
        gelu_inside = clock.cpu(lambda: functional.gelu(x))
        cast = clock.cpu(lambda: functional.linear(x, half_weight))
        kept = clock.cpu(lambda: functional.linear(half, weight))
    found.append(row("autocast_linear", inside - outside, half=outside, gelu=gelu_inside, cast=cast, kept=kept))
    return found


def waits(clock):
    """What Python waits for: copies from memory that is not pinned, by bytes, and a number read back from an idle GPU."""
    found = []
    for exponent in (10, 14, 18, 20, 22, 24, 26):
        given = torch.zeros(1 << exponent, dtype=torch.uint8)
        found.append(row("copy_to_gpu", clock.cpu(lambda: given.to(DEVICE), 5), bytes=1 << exponent))
    flag = torch.ones(4, 4, dtype=torch.bool, device=DEVICE)
    number = torch.ones((), device=DEVICE)
    found.append(row("read_number", clock.cpu(lambda: number.item(), 20)))
    found.append(row("all_then_read", clock.cpu(lambda: bool(flag.all()), 20)))
    return found


def rows(clock, is_late):
    global DEVICE
    DEVICE = clock.device
    return operators(clock, is_late) + shared(clock) + modules(clock) + waits(clock)
