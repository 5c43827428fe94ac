"""What a probe is: one operator on tensors of given shapes."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# One tensor in the small pool, one in the large pool whose bytes are no multiple of 512.
SMALL = (3, 77)
LARGE = (5, 321, 771)
PLAIN = ("fp32", "bf16")
ALL = ("fp32", "bf16", "fp16")
MIXED = ("fp32", "bf16", "fp16", "amp-bf16", "amp-fp16")


@dataclass(frozen=True)
class Argument:
    """`role`: activation (needs a gradient; a leaf or the result of x * 1), parameter (always a leaf), constant."""

    shape: tuple
    role: str
    dtype: torch.dtype | None = None  # None: the probe's
    high: int = 0
    layout: str = "contiguous"  # channels-last; transposed: the last two dimensions swapped in memory

    def make(self, dtype, device):
        dtype = self.dtype or dtype
        if dtype == torch.bool:
            return torch.rand(self.shape, device=device) < 0.5
        if not dtype.is_floating_point:
            return torch.randint(0, max(self.high, 1), self.shape, device=device, dtype=dtype)
        if self.layout == "transposed":
            swapped = (*self.shape[:-2], self.shape[-1], self.shape[-2])
            return torch.rand(swapped, device=device).to(dtype).transpose(-1, -2)
        values = torch.rand(self.shape, device=device).to(dtype)
        return values.to(memory_format=torch.channels_last) if self.layout == "channels-last" else values

    def describe(self, dtype):
        name = str(self.dtype or dtype).removeprefix("torch.")
        return [list(self.shape), name, self.role] + ([self.layout] if self.layout != "contiguous" else [])


def X(*shape, dtype=None, layout="contiguous"):
    """An activation."""
    return Argument(shape, "activation", dtype, layout=layout)


def P(*shape, dtype=None):
    """A parameter."""
    return Argument(shape, "parameter", dtype)


def C(*shape, dtype=None, layout="contiguous"):
    """A float constant."""
    return Argument(shape, "constant", dtype, layout=layout)


def I(*shape, high, dtype=torch.int64):  # noqa: E743
    """Integers."""
    return Argument(shape, "constant", dtype, high)


def B(*shape):
    """Booleans."""
    return Argument(shape, "constant", torch.bool)


@dataclass(frozen=True)
class Probe:
    operator: str
    function: Callable
    size: str
    arguments: tuple
    dtype: str
    modes: tuple

    @property
    def key(self):
        return f"{self.operator}|{self.dtype}|{self.size}"

    @property
    def base_dtype(self):
        """Autocast probes have float32 tensors."""
        return DTYPES.get(self.dtype, torch.float32)


@dataclass
class Family:
    """Collects probes. `sizes` maps a name to the list of arguments."""

    probes: list = field(default_factory=list)

    def add(self, operator, function, sizes, dtypes=PLAIN, modes=("leaf", "chained", "no_grad")):
        for dtype in dtypes:
            for size, arguments in sizes.items():
                self.probes.append(Probe(operator, function, size, tuple(arguments), dtype, modes))

    def unary(self, operator, function, dtypes=PLAIN, **others):
        self.add(operator, function, {"small": [X(*SMALL)], "large": [X(*LARGE)]}, dtypes, **others)

    def binary(self, operator, function, dtypes=PLAIN, **others):
        sizes = {"small": [X(*SMALL), X(*SMALL)], "large": [X(*LARGE), X(*LARGE)]}
        self.add(operator, function, sizes, dtypes, **others)
