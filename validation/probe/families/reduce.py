"""Reductions, over a grid of shapes: large ones need a workspace on the GPU."""

import torch
from specs import LARGE, PLAIN, SMALL, B, Family, X

ROWS = (1, 7, 128, 616, 4096, 65536)
WIDTHS = (1, 3, 100, 768, 3072, 30522)
ELEMENTS = (1, 100, 1000, 4096, 16384, 65536, 100_000, 262_144, 1_000_003, 4_194_304, 20_000_001)


def probes():
    family = Family()
    for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std"):
        function = getattr(torch, name)
        for dim in (-1, 0, 1):
            family.unary(f"{name} dim {dim}", lambda x, f=function, d=dim: f(x, dim=d))
            family.unary(f"{name} dim {dim} keepdim", lambda x, f=function, d=dim: f(x, dim=d, keepdim=True))
        if name not in ("amax", "amin", "logsumexp"):
            family.unary(f"{name} all", function)
    for name in ("max", "min", "median", "mode", "cummax"):
        function = getattr(torch, name)
        family.unary(f"{name} dim -1", lambda x, f=function: f(x, -1))
        if name in ("max", "min"):
            family.unary(f"{name} all", function)
            family.unary(f"{name} dim 0", lambda x, f=function: f(x, 0))
    for name in ("argmax", "argmin"):
        function = getattr(torch, name)
        family.unary(f"{name} dim -1", lambda x, f=function: f(x, dim=-1), modes=("no_grad",))
        family.unary(f"{name} all", function, modes=("no_grad",))
    for order in (1, 2, float("inf"), 3.0):
        family.unary(f"norm {order}", lambda x, p=order: torch.linalg.vector_norm(x, p))
        family.unary(f"norm {order} dim", lambda x, p=order: torch.linalg.vector_norm(x, p, dim=-1))
    family.unary("norm", torch.norm)
    family.unary("var_mean", lambda x: torch.var_mean(x, dim=-1))
    family.unary("sum to float32", lambda x: x.sum(dtype=torch.float32))
    family.unary("sum dim to float32", lambda x: x.sum(-1, dtype=torch.float32))
    family.unary("cumsum", lambda x: x.cumsum(-1))
    family.unary("cumsum dim 0", lambda x: x.cumsum(0))
    family.unary("cumprod", lambda x: x.cumprod(-1))
    family.unary("logcumsumexp", lambda x: x.logcumsumexp(-1))
    family.add("sum two dims", lambda x: x.sum((0, 1)), {"small": [X(3, 7, 77)], "large": [X(*LARGE)]})
    family.add("mean two dims", lambda x: x.mean((2, 3)), {"large": [X(5, 33, 77, 99)]})
    for name in ("any", "all"):
        family.add(
            f"{name} dim",
            lambda x, n=name: getattr(torch, n)(x, -1),
            {"small": [B(*SMALL)], "large": [B(*LARGE)]},
            ("fp32",),
            ("no_grad",),
        )
    grids(family)
    return family.probes


def grids(family):
    """Forward alone: where the kernel needs a workspace."""
    for rows in ROWS:
        for width in WIDTHS:
            if rows * width > 60_000_000:
                continue
            size = {f"{rows}x{width}": [X(rows, width)]}
            for dim in (0, 1):
                family.add(f"grid sum dim {dim}", lambda x, d=dim: x.sum(d), size, PLAIN, ("no_grad",))
            family.add("grid mean dim 1", lambda x: x.mean(1), size, ("fp32",), ("no_grad",))
            family.add("grid argmax dim 1", lambda x: x.argmax(1), size, ("fp32",), ("no_grad",))
            family.add("grid amax dim 0", lambda x: x.amax(0), size, ("fp32",), ("no_grad",))
    for elements in ELEMENTS:
        size = {str(elements): [X(elements)]}
        for name in ("sum", "mean", "max", "argmax", "norm", "var", "prod"):
            family.add(f"grid {name}", getattr(torch, name), size, PLAIN, ("no_grad",))
        family.add("grid cumsum", lambda x: x.cumsum(0), size, PLAIN, ("no_grad",))
        family.add("grid any", torch.any, {str(elements): [B(elements)]}, ("fp32",), ("no_grad",))
        family.add("grid all", torch.all, {str(elements): [B(elements)]}, ("fp32",), ("no_grad",))
    for shape in ((4, 128, 768), (8, 512, 768), (32, 128, 3072), (2, 3, 333, 129), (16, 1024, 50257 // 16)):
        size = {"x".join(map(str, shape)): [X(*shape)]}
        leading = tuple(range(len(shape) - 1))
        family.add("grid sum leading", lambda x, d=leading: x.sum(d), size, PLAIN, ("no_grad",))
        family.add("grid sum leading keepdim", lambda x, d=leading: x.sum(d, keepdim=True), size, PLAIN, ("no_grad",))
    heads = {"heads": [X(4, 12, 128, 128)], "heads large": [X(8, 12, 512, 512)]}
    family.add("grid sum batch", lambda x: x.sum(0, keepdim=True), heads, PLAIN, ("no_grad",))
    family.add("grid sum batch and query", lambda x: x.sum((0, 2), keepdim=True), heads, PLAIN, ("no_grad",))
