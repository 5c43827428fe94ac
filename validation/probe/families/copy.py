"""Copies, casts, views that must copy, joining and cutting, factories."""

import torch
from specs import LARGE, PLAIN, SMALL, C, Family, X
from torch.nn import functional


def probes():
    family = Family()
    for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}.items():
        family.unary(f"to {name}", lambda x, d=dtype: x.to(d))
        family.unary(f"to {name} copy", lambda x, d=dtype: x.to(d, copy=True))
    family.unary("float", lambda x: x.float())
    family.unary("to integers", lambda x: x.long(), modes=("no_grad",))
    family.unary("clone", torch.clone)
    family.unary("detach", torch.detach, modes=("no_grad",))
    family.unary("contiguous", lambda x: x.contiguous())
    family.unary("contiguous of transposed", lambda x: x.transpose(-1, -2).contiguous())
    family.unary("clone of transposed", lambda x: x.transpose(-1, -2).clone())
    family.unary("reshape of transposed", lambda x: x.transpose(-1, -2).reshape(-1))
    family.unary("to bf16 of transposed", lambda x: x.transpose(-1, -2).to(torch.bfloat16), ("fp32",))
    family.unary("view", lambda x: x.view(-1))
    family.unary("slice", lambda x: x[..., 1:-1])
    family.unary("slice contiguous", lambda x: x[..., 1:-1].contiguous())
    family.unary("select", lambda x: x[:, 0])
    family.unary("narrow rows", lambda x: x[:2])
    family.unary("step slice", lambda x: x[..., ::2])
    family.unary("expand", lambda x: x.unsqueeze(0).expand(3, *x.shape))
    family.unary(
        "expand reshape", lambda x: x.unsqueeze(1).expand(x.shape[0], 2, *x.shape[1:]).reshape(-1, x.shape[-1])
    )
    family.unary("repeat", lambda x: x.repeat(2, *[1] * (x.dim() - 1)))
    family.unary("repeat_interleave", lambda x: x.repeat_interleave(2, dim=1))
    family.unary("tile", lambda x: x.tile(2))
    family.unary("flip", lambda x: x.flip(-1))
    family.unary("roll", lambda x: x.roll(1, -1))
    family.unary("roll flat", lambda x: x.roll(1))
    family.unary("rot90", lambda x: x.rot90(1, (0, 1)))
    family.unary("diagonal", lambda x: x.diagonal(0, -2, -1))
    family.unary("unbind", lambda x: x.unbind(0))
    family.unary("unfold", lambda x: x.unfold(-1, 3, 2))
    joining(family)
    padding(family)
    writing(family)
    factories(family)
    return family.probes


def joining(family):
    two = {"small": [X(3, 7, 77)] * 2, "large": [X(*LARGE)] * 2}
    for dim in (0, 1, -1):
        family.add(f"cat dim {dim}", lambda x, y, d=dim: torch.cat([x, y], d), two)
        family.add(f"stack dim {dim}", lambda x, y, d=dim: torch.stack([x, y], d), two)
    family.add("cat mixed dtypes", lambda x, y: torch.cat([x, y.float()], -1), two, ("bf16",))
    family.add("cat in autocast", lambda x, y: torch.cat([x, y.bfloat16()], -1), two, ("amp-bf16",))
    many = {"large": [X(5, 99, 77) for _ in range(9)]}
    family.add("cat nine", lambda *tensors: torch.cat(tensors, 1), many)
    one = {"small": [X(3, 7, 78)], "large": [X(5, 321, 774)]}
    family.add("split all used", lambda x: x.split(x.shape[-1] // 3, -1), one)
    family.add("chunk all used", lambda x: x.chunk(2, -1), one)
    family.add("chunk one used", lambda x: x.chunk(3, -1)[1], one)
    family.add("chunk two of three", lambda x: x.chunk(3, -1)[:2], one)
    family.add("split rows", lambda x: x.split(2, 0), one)
    family.add("chunk product", lambda x: torch.mul(*x.chunk(2, -1)), one)
    qkv = {"small": [X(2, 7, 3 * 48)], "large": [X(4, 200, 3 * 384)]}

    def heads(x):
        return [part.view(*part.shape[:2], 6, -1).transpose(1, 2) for part in x.split(x.shape[-1] // 3, dim=2)]

    family.add("split into heads", heads, qkv)
    family.add("split into heads, multiplied", lambda x: sum(part * 2 for part in heads(x)), qkv)
    family.add("meshgrid", lambda x: torch.meshgrid(x, x, indexing="ij"), {"large": [X(1001)]}, ("fp32",))


def padding(family):
    for mode in ("constant", "reflect", "replicate", "circular"):
        family.add(
            f"pad {mode}",
            lambda x, m=mode: functional.pad(x, (1, 2), mode=m),
            {"small": [X(3, 7, 77)], "large": [X(*LARGE)]},
        )
    family.unary("pad negative", lambda x: functional.pad(x, (-1, -1)))
    family.add("pad two dims", lambda x: functional.pad(x, (1, 1, 2, 2)), {"large": [X(5, 33, 77, 99)]})


def writing(family):
    def write_slice(x, y):
        x = x.clone()
        x[:, 1:] = y
        return x

    def fill_slice(x):
        x = x.clone()
        x[:, 0] = 0.0
        return x

    def shift_right(x):
        shifted = torch.zeros_like(x)
        shifted[..., 1:] = x[..., :-1].clone()
        return shifted

    family.add("write slice", write_slice, {"small": [X(3, 77), X(3, 76)], "large": [X(5, 321, 771), X(5, 320, 771)]})
    family.unary("fill slice", fill_slice)
    family.unary("shift right", shift_right)
    family.binary("copy_", lambda x, y: x.copy_(y), modes=("chained", "no_grad"))
    family.unary("zero_", lambda x: x.zero_(), modes=("chained", "no_grad"))
    family.unary("fill_", lambda x: x.fill_(1.0), modes=("chained", "no_grad"))


def factories(family):
    sizes = {"small": [C(*SMALL)], "large": [C(*LARGE)]}
    for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"):
        family.add(name, getattr(torch, name), sizes, PLAIN, ("no_grad",))
    family.add("full_like", lambda x: torch.full_like(x, 3.0), sizes, PLAIN, ("no_grad",))
    for elements in (77, 1_000_001):
        size = {str(elements): [C(1)]}
        family.add("arange", lambda x, n=elements: torch.arange(n, device=x.device), size, ("fp32",), ("no_grad",))
        family.add(
            "linspace", lambda x, n=elements: torch.linspace(0, 1, n, device=x.device), size, ("fp32",), ("no_grad",)
        )
        family.add("randperm", lambda x, n=elements: torch.randperm(n, device=x.device), size, ("fp32",), ("no_grad",))
        family.add("tensor", lambda x, n=elements: torch.zeros(n, device=x.device), size, ("fp32",), ("no_grad",))
    family.add(
        "tensor of a number", lambda x: torch.tensor(3.0, device=x.device), {"one": [C(1)]}, ("fp32",), ("no_grad",)
    )
    family.add("eye", lambda x: torch.eye(1001, device=x.device), {"one": [C(1)]}, ("fp32",), ("no_grad",))
    family.add(
        "causal mask",
        lambda x: torch.triu(torch.full((1001, 1001), -1e9, device=x.device), 1),
        {"one": [C(1)]},
        ("fp32",),
        ("no_grad",),
    )
    family.add("bernoulli", lambda x: torch.bernoulli(x), sizes, PLAIN, ("no_grad",))
    family.add("multinomial", lambda x: torch.multinomial(x, 3), {"small": [C(3, 77)]}, ("fp32",), ("no_grad",))
    family.add("one_hot", lambda x: functional.one_hot(x[..., 0].long(), 9), sizes, ("fp32",), ("no_grad",))
