"""Every activation of torch.nn, plain and in place; softmax; dropout."""

import torch
from specs import ALL, MIXED, PLAIN, Family, P, X
from torch import nn
from torch.nn import functional

MODULES = """ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid ReLU ReLU6 SELU CELU GELU Sigmoid
SiLU Mish Softplus Softshrink Softsign Tanh Tanhshrink Threshold GLU""".split()
IN_PLACE = "ELU Hardsigmoid Hardtanh Hardswish LeakyReLU ReLU ReLU6 SELU CELU SiLU Mish Threshold".split()
POSITIONAL = {"Threshold": (0.1, 20.0)}


def new_gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def swiglu(gate, up):
    return functional.silu(gate) * up


def probes():
    family = Family()
    for name in MODULES:
        if name != "GLU":
            family.unary(name, getattr(nn, name)(*POSITIONAL.get(name, ())), ALL)
    family.add("GLU", nn.GLU(), {"small": [X(3, 78)], "large": [X(5, 321, 772)]}, ALL)
    for name in IN_PLACE:
        module = getattr(nn, name)(*POSITIONAL.get(name, ()), inplace=True)
        family.unary(f"{name} in place", module, modes=("chained", "no_grad"))
    for name in ("tanh", "sigmoid", "relu", "exp", "sqrt", "abs", "neg"):
        method = f"{name}_"
        family.unary(f"{name}_", lambda x, method=method: getattr(x, method)(), modes=("chained", "no_grad"))
    family.unary("GELU tanh", nn.GELU("tanh"), ALL)
    family.unary("gelu written out", new_gelu, MIXED)
    family.unary("quick gelu", quick_gelu, MIXED)
    family.binary("swiglu", swiglu, MIXED)
    family.unary("RReLU", lambda x: functional.rrelu(x, training=True))
    family.add("PReLU one", functional.prelu, {"small": [X(3, 77), P(1)], "large": [X(5, 321, 771), P(1)]})
    family.add("PReLU many", functional.prelu, {"small": [X(3, 77), P(77)], "large": [X(5, 321, 771), P(321)]})
    softmaxes(family)
    dropouts(family)
    return family.probes


def softmaxes(family):
    for name in ("softmax", "log_softmax", "softmin"):
        function = getattr(functional, name)
        for dim in (-1, 0, 1):
            family.unary(f"{name} dim {dim}", lambda x, f=function, dim=dim: f(x, dim=dim), ALL)
        if name != "softmin":
            family.unary(f"{name} to float32", lambda x, f=function: f(x, dim=-1, dtype=torch.float32), ALL)
            family.unary(
                f"{name} to float32 and back", lambda x, f=function: f(x, dim=-1, dtype=torch.float32).to(x.dtype), ALL
            )
            family.unary(f"{name} in autocast", lambda x, f=function: f(x, dim=-1), ("amp-bf16", "amp-fp16"))
    family.unary("gumbel_softmax", lambda x: functional.gumbel_softmax(x, dim=-1))
    wide = {"short rows": [X(4099, 33)], "long rows": [X(17, 50257)], "very long rows": [X(3, 131073)]}
    family.add("softmax dim -1", lambda x: functional.softmax(x, dim=-1), wide, PLAIN)
    family.add("log_softmax dim -1", lambda x: functional.log_softmax(x, dim=-1), wide, PLAIN)


def dropouts(family):
    for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
        function = getattr(functional, name)
        family.unary(name, lambda x, f=function: f(x, 0.1, training=True), MIXED)
        family.unary(f"{name} in eval", lambda x, f=function: f(x, 0.1, training=False))
    family.unary("dropout of 0", lambda x: functional.dropout(x, 0.0, training=True))
    family.unary("dropout of 1", lambda x: functional.dropout(x, 1.0, training=True))
    family.unary(
        "dropout in place", lambda x: functional.dropout(x, 0.1, training=True, inplace=True), modes=("chained",)
    )
    family.add("dropout1d", lambda x: functional.dropout1d(x, 0.1), {"small": [X(3, 7, 77)], "large": [X(5, 321, 771)]})
    family.add(
        "dropout2d", lambda x: functional.dropout2d(x, 0.1), {"small": [X(3, 7, 7, 7)], "large": [X(5, 33, 77, 99)]}
    )
