"""Arithmetic with broadcasting and promotion, unary functions, comparisons, masks."""

import torch
from specs import LARGE, MIXED, PLAIN, SMALL, B, C, Family, I, P, X

UNARY = """abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal square sin cos tan asin acos atan sinh
cosh tanh asinh acosh atanh sigmoid erf erfc erfinv floor ceil round trunc frac sign lgamma digamma logit sinc
nan_to_num positive relu""".split()


def probes():
    family = Family()
    for name in UNARY:
        family.unary(name, getattr(torch, name))
    arithmetic(family)
    broadcasting(family)
    promotion(family)
    comparisons(family)
    rotary(family)
    return family.probes


def arithmetic(family):
    for name in ("add", "sub", "mul", "div", "pow", "atan2", "maximum", "minimum", "fmod", "remainder", "hypot"):
        family.binary(name, getattr(torch, name))
    family.binary("lerp", lambda x, y: torch.lerp(x, y, 0.3))
    family.binary("add alpha", lambda x, y: torch.add(x, y, alpha=0.5))
    for name in ("add", "sub", "mul", "div"):
        method = f"{name}_"
        family.binary(method, lambda x, y, m=method: getattr(x, m)(y), modes=("chained", "no_grad"))
        family.unary(f"{name}_ scalar", lambda x, m=method: getattr(x, m)(2.5), modes=("chained", "no_grad"))
        family.unary(f"{name} scalar", lambda x, name=name: getattr(torch, name)(x, 2.5))
    family.unary("scalar minus", lambda x: 1.0 - x)
    family.unary("scalar over", lambda x: 1.0 / x)
    for power in (2, 2.0, 3, 3.0, 0.5, -1, -0.5, 1, 0, 1.7):
        family.unary(f"pow {power!r}", lambda x, power=power: torch.pow(x, power))
    family.unary("scalar pow", lambda x: torch.pow(2.0, x))
    family.unary("x * x", lambda x: x * x)
    family.unary("x + x", lambda x: x + x)
    family.unary("residual", lambda x: x + torch.tanh(x))
    three = {"small": [X(*SMALL)] * 3, "large": [X(*LARGE)] * 3}
    family.add("addcmul", torch.addcmul, three)
    family.add("addcdiv", torch.addcdiv, three)
    family.add("sum of three", lambda x, y, z: x + y + z, three)
    for name, call in {
        "clamp": lambda x: x.clamp(0.2, 0.8),
        "clamp min": lambda x: x.clamp(min=0.2),
        "clamp max": lambda x: x.clamp(max=0.8),
        "clamp_": lambda x: x.clamp_(0.2, 0.8),
    }.items():
        family.unary(name, call, modes=("chained", "no_grad") if name.endswith("_") else ("leaf", "chained", "no_grad"))
    family.add("clamp tensors", torch.clamp, {"large": [X(*LARGE), C(*LARGE), C(*LARGE)]})


def broadcasting(family):
    """The gradient of the smaller operand is a sum."""
    pairs = {
        "row": ((5, 321, 771), (771,)),
        "row small": ((3, 7, 77), (77,)),
        "column": ((5, 321, 771), (5, 321, 1)),
        "middle": ((5, 321, 771), (321, 1)),
        "batch": ((5, 321, 771), (1, 321, 771)),
        "one": ((5, 321, 771), (1,)),
        "scalar tensor": ((5, 321, 771), ()),
        "both": ((5, 321, 1), (1, 771)),
        "mask": ((3, 4, 321, 333), (3, 1, 1, 333)),
        "bias": ((3, 4, 321, 333), (1, 4, 321, 333)),
    }
    for name, (left, right) in pairs.items():
        for operator in ("add", "mul", "div", "sub"):
            family.add(f"{operator} broadcast", getattr(torch, operator), {name: [X(*left), X(*right)]})
        family.add("mul broadcast parameter", torch.mul, {name: [X(*left), P(*right)]}, MIXED)
        family.add("add broadcast constant", torch.add, {name: [X(*left), C(*right)]})
        family.add("mul broadcast constant", torch.mul, {name: [X(*left), C(*right)]})


def promotion(family):
    for name in ("add", "mul"):
        function = getattr(torch, name)
        for size, shape in {"small": SMALL, "large": LARGE}.items():
            family.add(
                f"{name} with fp32", function, {size: [X(*shape), X(*shape, dtype=torch.float32)]}, ("bf16", "fp16")
            )
            family.add(
                f"{name} with fp32 row", function, {size: [X(*shape), P(shape[-1], dtype=torch.float32)]}, ("bf16",)
            )
            family.add(f"{name} with integers", function, {size: [X(*shape), I(*shape, high=9)]})
            family.add(f"{name} with booleans", function, {size: [X(*shape), B(*shape)]})
    family.add("bf16 + fp16", torch.add, {"large": [X(*LARGE), X(*LARGE, dtype=torch.float16)]}, ("bf16",))
    family.add(
        "mul_ fp32",
        lambda x, y: x.mul_(y),
        {"large": [X(*LARGE), C(*LARGE, dtype=torch.float32)]},
        ("bf16",),
        ("chained",),
    )
    family.add("mul in autocast", torch.mul, {"large": [X(*LARGE), X(*LARGE, dtype=torch.bfloat16)]}, ("amp-bf16",))
    family.unary("pow in autocast", lambda x: x.bfloat16().pow(2), ("amp-bf16",))
    family.unary("exp in autocast", lambda x: x.bfloat16().exp(), ("amp-bf16",))
    family.unary("sum in autocast", lambda x: x.bfloat16().sum(-1), ("amp-bf16",))


def comparisons(family):
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        family.binary(name, getattr(torch, name), modes=("no_grad",))
        family.unary(f"{name} scalar", lambda x, name=name: getattr(torch, name)(x, 0.5), modes=("no_grad",))
    for name in ("isnan", "isinf", "isfinite", "signbit"):
        family.unary(name, getattr(torch, name), modes=("no_grad",))
    masks = {"small": [B(*SMALL), B(*SMALL)], "large": [B(*LARGE), B(*LARGE)]}
    for name in ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or"):
        family.add(name, getattr(torch, name), masks, ("fp32",), ("no_grad",))
    for name in ("logical_not", "bitwise_not", "any", "all", "sum", "nonzero"):
        family.add(
            f"{name} of booleans",
            getattr(torch, name),
            {"small": [B(*SMALL)], "large": [B(*LARGE)]},
            ("fp32",),
            ("no_grad",),
        )
    for size, shape in {"small": SMALL, "large": LARGE}.items():
        row = shape[-1:]
        family.add("where", lambda m, x, y: torch.where(m, x, y), {size: [B(*shape), X(*shape), X(*shape)]}, MIXED)
        family.add("where scalar", lambda m, x: torch.where(m, x, 0.0), {size: [B(*shape), X(*shape)]})
        family.add("where broadcast", lambda m, x, y: torch.where(m, x, y), {size: [B(*row), X(*shape), X(*row)]})
        family.add("masked_fill", lambda x, m: x.masked_fill(m, -1e4), {size: [X(*shape), B(*shape)]}, MIXED)
        family.add("masked_fill broadcast", lambda x, m: x.masked_fill(m, -1e4), {size: [X(*shape), B(*row)]})
        family.add(
            "masked_fill_", lambda x, m: x.masked_fill_(m, 0.0), {size: [X(*shape), B(*shape)]}, modes=("chained",)
        )
        family.add("masked_fill tensor", lambda x, m, v: x.masked_fill(m, v), {size: [X(*shape), B(*shape), X()]})
        family.add("masked_select", torch.masked_select, {size: [X(*shape), B(*shape)]})
    for name in ("tril", "triu"):
        family.unary(name, getattr(torch, name))
        square = {"square": [X(3, 1001, 1001)]}
        family.add(f"{name} 1", lambda x, name=name: getattr(torch, name)(x, 1), square)


def rotary(family):
    def rotate_half(x):
        half = x.shape[-1] // 2
        return torch.cat((-x[..., half:], x[..., :half]), dim=-1)

    def apply(query, cosine, sine):
        cosine, sine = cosine.unsqueeze(1), sine.unsqueeze(1)
        return query * cosine + rotate_half(query) * sine

    sizes = {
        "small": [X(2, 4, 7, 16), C(1, 7, 16), C(1, 7, 16)],
        "large": [X(3, 8, 321, 64), C(1, 321, 64), C(1, 321, 64)],
    }
    family.add("rotary", apply, sizes, MIXED)
    from_view = {"large": [X(3, 321, 8, 64), C(1, 321, 64), C(1, 321, 64)]}
    family.add("rotary of transposed", lambda q, c, s: apply(q.transpose(1, 2), c, s), from_view, PLAIN)

    def angles(positions, frequencies):
        with torch.autocast("cuda", enabled=False):
            angle = (frequencies[None, :, None].float() @ positions[:, None, :].float()).transpose(1, 2)
            both = torch.cat((angle, angle), dim=-1)
            return both.cos().bfloat16(), both.sin().bfloat16()

    family.add(
        "rotary angles", angles, {"large": [I(1, 3001, high=9), C(32, dtype=torch.float32)]}, ("fp32",), ("no_grad",)
    )
