"""Operators that compute: matrix products, attention, convolutions, recurrent layers."""

import itertools

import torch
from torch import nn
from torch.nn import functional

SINGLE, HALF = torch.float32, torch.bfloat16
MOST_FLOPS = {SINGLE: 1.2e12, HALF: 8e12}

ROWS = (32, 128, 512, 2048, 8192, 32768)
INNER = (64, 256, 1024, 4096)
OUTER = (64, 256, 1024, 4096, 32768)


def name_of(dtype):
    return str(dtype)[6:]


def product_sizes(is_tiny):
    if is_tiny:
        return [(8, 16, 16)]
    return list(itertools.product(ROWS, INNER, OUTER))


# Neither a power of two nor a multiple of one: how much an odd leading dimension costs, and usual widths.
OTHER_SIZES = [
    (4096, 768, 768), (4096, 768, 3072), (4096, 3072, 768), (1024, 768, 768), (1024, 768, 3072), (1024, 3072, 768),
    (2048, 640, 2560), (3000, 1280, 1280), (1536, 2304, 768), (777, 3072, 4096), (197 * 16, 768, 768),
    (4096, 768, 50257), (1024, 768, 50257), (2048, 512, 30522), (512, 1024, 30522), (2048, 511, 1023),
    (2048, 512, 1022), (2048, 510, 1024), (512, 333, 1001), (1001, 1024, 1024), (16, 1024, 1000), (32, 2048, 1000),
    (700, 650, 10000), (16384, 96, 384), (16384, 384, 96), (4096, 192, 768), (64, 768, 2), (64, 1024, 10),
]  # fmt: skip


def products(clock, device, is_tiny, is_late):
    """{rows, inner, outer, dtype, forward, for_input, for_weight}: a linear layer's three products."""
    found = []
    for dtype in (SINGLE, HALF):
        for m, k, n in product_sizes(is_tiny) + ([] if is_tiny else OTHER_SIZES):
            if is_late() or 2.0 * m * k * n > MOST_FLOPS[dtype]:
                continue
            shapes = ((m, k), (n, k), (n,), (m, n))
            x, weight, bias, gradient = (torch.randn(*shape, dtype=dtype, device=device) for shape in shapes)
            found.append(
                {
                    "rows": m,
                    "inner": k,
                    "outer": n,
                    "dtype": name_of(dtype),
                    "forward": clock.gpu(lambda: functional.linear(x, weight, bias)),
                    "for_input": clock.gpu(lambda: gradient @ weight),
                    "for_weight": clock.gpu(lambda: gradient.t() @ x),
                }
            )
    return found


def batched(clock, device, is_tiny, is_late):
    """{batch, rows, inner, outer, dtype, forward, backward}."""
    sizes = [(b, s, d, s) for b in (16, 96, 384) for s in (64, 128, 256, 512, 1024) for d in (32, 64, 128)]
    sizes += [(b, s, s, d) for b, s, _, d in sizes]
    found = []
    for dtype, (b, m, k, n) in itertools.product((SINGLE, HALF), [(2, 8, 4, 8)] if is_tiny else sizes):
        if is_late() or 2.0 * b * m * k * n > MOST_FLOPS[dtype] / 4:
            continue
        x, y = (torch.randn(*shape, dtype=dtype, device=device).requires_grad_() for shape in ((b, m, k), (b, k, n)))
        call = lambda: torch.bmm(x, y)  # noqa: E731
        row = {"batch": b, "rows": m, "inner": k, "outer": n, "dtype": name_of(dtype)}
        found.append({**row, "forward": clock.gpu(call), "backward": clock.gpu_backward(call, [x, y])})
    return found


def attention(clock, device, is_tiny, is_late):
    """{batch, heads, tokens, width, kind, dropout, dtype, forward, backward}; kind: plain, causal, masked."""
    sizes = [(8, 12, 64), (2, 12, 64), (8, 16, 128), (32, 12, 64), (8, 8, 32)]
    tokens = (64, 128, 197, 256, 512, 1024, 2048)
    grid = [(size, s, kind, 0.0) for size in sizes for s in tokens for kind in ("plain", "causal")]
    grid += [(size, s, "masked", 0.0) for size in sizes[:3] for s in (128, 512, 1024)]
    grid += [(size, s, "plain", 0.1) for size in sizes[:3] for s in (128, 512, 1024)]
    found = []
    if is_tiny:
        grid = [((2, 2, 8), 16, "plain", 0.0), ((2, 2, 8), 16, "masked", 0.0)]
    for dtype, ((b, h, d), s, kind, dropout) in itertools.product((SINGLE, HALF), grid):
        if is_late() or 4.0 * b * h * s * s * d > MOST_FLOPS[dtype] / 4:
            continue
        # As models have them: (batch, tokens, heads, width) in memory.
        parts = [torch.randn(b, s, h, d, dtype=dtype, device=device).requires_grad_() for _ in range(3)]
        q, k, v = (part.transpose(1, 2) for part in parts)
        mask = torch.zeros(b, 1, s, s, dtype=dtype, device=device) if kind == "masked" else None
        call = lambda: functional.scaled_dot_product_attention(  # noqa: E731
            q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=kind == "causal"
        )
        row = {"batch": b, "heads": h, "tokens": s, "width": d, "kind": kind, "dropout": dropout}
        row["dtype"] = name_of(dtype)
        try:
            row.update(forward=clock.gpu(call), backward=clock.gpu_backward(call, parts))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:200]
        found.append(row)
    return found


# inputs, outputs, kernel, stride, groups, side; channels grow as sides shrink.
CONVOLUTIONS = [
    (3, 64, 7, 2, 1, 224), (3, 32, 3, 2, 1, 224), (3, 96, 4, 4, 1, 224), (3, 768, 16, 16, 1, 224), (3, 32, 3, 1, 1, 128),
    (32, 32, 3, 1, 1, 112), (64, 64, 3, 1, 1, 56), (128, 128, 3, 1, 1, 28), (256, 256, 3, 1, 1, 14), (512, 512, 3, 1, 1, 7),
    (32, 64, 3, 1, 1, 64), (64, 32, 3, 1, 1, 128), (128, 64, 3, 1, 1, 64), (256, 128, 3, 1, 1, 32), (64, 128, 3, 2, 1, 56),
    (256, 512, 3, 2, 1, 14), (64, 256, 1, 1, 1, 56), (256, 64, 1, 1, 1, 56), (512, 128, 1, 1, 1, 28), (128, 512, 1, 1, 1, 28),
    (1024, 256, 1, 1, 1, 14), (256, 1024, 1, 1, 1, 14), (512, 2048, 1, 1, 1, 7), (2048, 512, 1, 1, 1, 7),
    (256, 512, 1, 2, 1, 56), (16, 96, 1, 1, 1, 112), (96, 24, 1, 1, 1, 56), (96, 192, 2, 2, 1, 56), (384, 768, 2, 2, 1, 14),
    (32, 32, 3, 1, 32, 112), (144, 144, 3, 1, 144, 56), (480, 480, 5, 1, 480, 14), (96, 96, 7, 1, 96, 56),
    (384, 384, 7, 1, 384, 14), (768, 768, 7, 1, 768, 7), (128, 128, 3, 1, 32, 56), (256, 256, 3, 1, 32, 28),
    (64, 64, 3, 1, 1, 224), (128, 128, 3, 1, 1, 112), (128, 128, 3, 1, 1, 56), (256, 256, 3, 1, 1, 56), (256, 256, 3, 1, 1, 28),
    (512, 512, 3, 1, 1, 28), (512, 512, 3, 1, 1, 14), (1024, 1024, 3, 1, 1, 7), (256, 256, 3, 2, 1, 56), (512, 512, 3, 2, 1, 28),
    (64, 64, 3, 1, 1, 32), (192, 192, 3, 1, 1, 16), (384, 192, 3, 1, 1, 16), (32, 32, 8, 8, 1, 128), (64, 128, 3, 2, 1, 32),
    (64, 64, 1, 1, 1, 56), (256, 128, 1, 1, 1, 56), (128, 256, 1, 1, 1, 56), (512, 256, 1, 1, 1, 28), (256, 512, 1, 1, 1, 28),
    (1024, 512, 1, 1, 1, 14), (512, 1024, 1, 1, 1, 14), (1024, 2048, 1, 1, 1, 7), (2048, 1024, 1, 1, 1, 7),
    (24, 144, 1, 1, 1, 56), (160, 960, 1, 1, 1, 7), (192, 576, 1, 1, 1, 16), (1024, 256, 1, 1, 1, 128), (144, 32, 1, 1, 1, 28),
    (64, 64, 3, 1, 64, 56), (960, 960, 5, 1, 960, 7), (256, 256, 3, 1, 256, 28), (512, 512, 3, 1, 32, 14), (1024, 1024, 3, 1, 32, 7),
]  # fmt: skip
TRANSPOSED = [(256, 128, 2, 2, 1, 16), (128, 64, 2, 2, 1, 32), (64, 32, 2, 2, 1, 64), (64, 64, 4, 2, 1, 32)]


MOST_OPERATIONS = 3e12


def convolutions(clock, device, is_tiny, is_late):
    """{inputs, outputs, kernel, stride, groups, side, batch, transposed, dtype, layout, forward, backward}."""
    found = []
    shapes = [(shape, False) for shape in CONVOLUTIONS] + [(shape, True) for shape in TRANSPOSED]
    batches = (16, 64, 4, 256)
    if is_tiny:
        shapes, batches = shapes[4:6] + shapes[-1:], (1,)
    order = itertools.product(batches, (SINGLE, HALF), (False, True), shapes)
    for batch, dtype, is_last, (shape, is_transposed) in order:
        inputs, outputs, kernel, stride, groups, side = shape
        places = side * side if is_transposed else (side // stride) ** 2
        if is_late() or 2.0 * batch * places * inputs // groups * outputs * kernel**2 > MOST_OPERATIONS:
            continue
        layout = torch.channels_last if is_last else torch.contiguous_format
        x = torch.randn(batch, inputs, side, side, dtype=dtype, device=device).to(memory_format=layout)
        x.requires_grad_(inputs != 3)
        kind = nn.ConvTranspose2d if is_transposed else nn.Conv2d
        padding = {} if is_transposed else {"padding": kernel // 2 if kernel == 2 * (kernel // 2) + 1 else 0}
        layer = kind(inputs, outputs, kernel, stride, groups=groups, bias=False, device=device, **padding)
        layer = layer.to(dtype).to(memory_format=layout)
        leaves = [layer.weight] + ([x] if x.requires_grad else [])
        names = ("inputs", "outputs", "kernel", "stride", "groups", "side")
        row = {**dict(zip(names, shape)), "batch": batch, "transposed": is_transposed, "dtype": name_of(dtype)}
        row["layout"] = "last" if is_last else "first"
        try:
            call = lambda: layer(x)  # noqa: E731
            row.update(forward=clock.gpu(call), backward=clock.gpu_backward(call, leaves))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:200]
        found.append(row)
    return found


def recurrent(clock, device, is_tiny, is_late):
    """{kind, batch, tokens, inputs, hidden, layers, directions, dtype, forward, backward}."""
    sizes = [(b, s, h, l, w) for b in (8, 32) for s in (16, 64) for h in (128, 512, 1024) for l, w in ((1, 1), (2, 1), (1, 2))]
    found = []
    for kind, dtype, (b, s, h, l, w) in itertools.product(
        ("LSTM", "GRU", "RNN"), (SINGLE, HALF), [(2, 4, 8, 1, 1)] if is_tiny else sizes
    ):
        if is_late() or (kind == "RNN" and dtype == HALF):
            continue
        layer = getattr(nn, kind)(h, h, l, batch_first=True, bidirectional=w == 2, device=device).to(dtype)
        x = torch.randn(b, s, h, dtype=dtype, device=device).requires_grad_()
        row = {"kind": kind, "batch": b, "tokens": s, "hidden": h, "layers": l, "directions": w, "dtype": name_of(dtype)}
        call = lambda: layer(x)[0]  # noqa: E731
        try:
            row.update(forward=clock.gpu(call), backward=clock.gpu_backward(call, [x, *layer.parameters()]))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:200]
        found.append(row)
    return found
