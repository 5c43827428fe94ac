"""Operators that models seldom call: functions of one tensor in place, other names of common operators, counts, fills by index."""

import torch
from specs import Family, I, X

FP32 = ("fp32",)
NO_GRAD = ("no_grad",)
ROWS = {"small": (33, 77), "large": (1605, 771)}
IN_PLACE = "acos asin atan cosh deg2rad digamma erf erfc erfinv exp2 i0 lgamma logit nan_to_num rad2deg sgn sinc sinh tan".split()
ALIASES = "absolute arccos arctan fix negative absolute_ arccos_ arctan_ fix_ negative_".split()
SPECIAL = "digamma erf erfc erfinv exp2 expit expm1 gammaln i0 log1p psi sinc".split()


def probes():
    family = Family()
    for add in (in_place, aliases, counts, by_index, twice):
        add(family)
    return family.probes


def in_place(family):
    for name in IN_PLACE:
        family.unary(f"{name}_ in place", lambda x, name=name: getattr(x * 0.9, f"{name}_")(), FP32)


def aliases(family):
    for name in ALIASES:
        family.unary(f"alias {name}", lambda x, name=name: getattr(x * 0.9, name)(), FP32)
    for name in SPECIAL:
        family.unary(f"alias special {name}", lambda x, name=name: getattr(torch.special, name)(x * 0.9), FP32)
    for name in "multiply subtract divide true_divide arctan2".split():
        family.binary(f"alias {name}", lambda x, y, name=name: getattr(x * 2, name)(y), FP32)
        family.binary(f"alias {name}_", lambda x, y, name=name: getattr(x * 2, f"{name}_")(y), FP32)
    family.binary("alias greater", lambda x, y: x.greater(y), FP32, modes=NO_GRAD)
    family.binary("alias less_equal_", lambda x, y: (x * 1).less_equal_(y), FP32, modes=NO_GRAD)
    family.unary("alias special softmax", lambda x: torch.special.softmax(x, -1), FP32)
    family.unary("alias special log_softmax", lambda x: torch.special.log_softmax(x, -1), FP32)
    family.unary("alias special logsumexp", lambda x: torch.special.logsumexp(x, -1), FP32)


def counts(family):
    for size, (rows, columns) in ROWS.items():
        whole = {size: [X(rows, columns)]}
        family.add("count_nonzero", torch.count_nonzero, whole, FP32, NO_GRAD)
        family.add("count_nonzero of rows", lambda x: torch.count_nonzero(x, dim=1), whole, FP32, NO_GRAD)
        family.add("aminmax", lambda x: tuple(torch.aminmax(x)), whole, FP32, NO_GRAD)
        family.add("aminmax of rows", lambda x: tuple(torch.aminmax(x, dim=1)), whole, FP32, NO_GRAD)
        family.add("kthvalue", lambda x: torch.kthvalue(x, 5, dim=1)[0], whole, FP32)
        family.add("isposinf", torch.isposinf, whole, FP32, NO_GRAD)
        family.add("quantile linear of rows", lambda x: torch.quantile(x, 0.25, dim=1), whole, FP32)
        family.add("nanquantile of rows", lambda x: torch.nanquantile(x, 0.25, dim=1), whole, FP32)
        family.add("poisson", torch.poisson, whole, FP32, NO_GRAD)
        family.add("polygamma", lambda x: torch.polygamma(1, x + 1), whole, FP32)


def by_index(family):
    for size, (rows, columns) in ROWS.items():
        whole, places = X(rows, columns), I(9, high=33)
        family.add("index_fill number", lambda x, i: x.index_fill(0, i, 0.5), {size: [whole, places]}, FP32)
        family.add("index_fill_ number", lambda x, i: (x * 1).index_fill_(1, i, 0.5), {size: [whole, places]}, FP32)

    def scattered(x, source):
        mask = torch.arange(x.numel(), device=x.device).view(x.shape) % 2 == 0
        return (x * 1).masked_scatter_(mask, source)

    for size, (rows, columns) in ROWS.items():
        family.add("masked_scatter_ in place", scattered, {size: [X(rows, columns), X((rows * columns + 1) // 2)]}, FP32)


def twice(family):
    def second(function):
        def run(x):
            y = x * 1
            (first,) = torch.autograd.grad(function(y).sum(), y, create_graph=True)
            return first * first

        return run

    functional = torch.nn.functional
    for name in ("elu", "celu", "selu", "softplus", "silu", "gelu", "leaky_relu", "hardtanh", "logsigmoid", "mish"):
        family.unary(f"{name} differentiated twice", second(getattr(functional, name)), FP32, modes=("leaf", "chained"))
