"""Parses inputs and targets such as ``x=4x3x224x224``, ``ids=4x128:int64``, ``ids=4x128:int64:30522``."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

import torch

from ..errors import VramfitError

_DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16, "int64": torch.int64,
    "int32": torch.int32, "bool": torch.bool, "fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16,
    "long": torch.int64, "int": torch.int64, "float": torch.float32,
}
_FORM = "NAME=SHAPE[:DTYPE[:BOUND]], such as x=4x3x224x224 or ids=4x128:int64:30522"


class Written(NamedTuple):
    """One tensor as given on the command line."""

    name: str
    shape: List[int]
    dtype: torch.dtype
    bound: Optional[int]

    def tensor(self, bound: int) -> torch.Tensor:
        """A tensor with random values. Integers are below the given bound, or else below ``bound``."""
        generator = torch.Generator().manual_seed(0)
        if self.dtype is torch.bool:
            return torch.ones(self.shape, dtype=torch.bool)
        if self.dtype.is_floating_point:
            return torch.rand(self.shape, generator=generator).to(self.dtype)
        if "mask" in self.name and self.bound is None:
            return torch.ones(self.shape, dtype=self.dtype)
        return torch.randint(0, self.bound or bound, self.shape, generator=generator, dtype=self.dtype)


def parse(flag: str, text: str, name: Optional[str] = None) -> Written:
    """Parses one tensor. With ``name``, the text has none."""
    if name is None:
        name, equals, rest = text.partition("=")
        if not equals or not name.isidentifier():
            raise VramfitError(f"{flag}: found {text!r}, needed {_FORM}")
    else:
        rest = text
    size, *more = rest.split(":")
    if not re.fullmatch(r"\d+(x\d+)*", size):
        raise VramfitError(f"{flag}: {name}: found shape {size!r}, needed whole numbers with x between", f"needed is {_FORM}")
    shape = [int(part) for part in size.split("x")]
    if 0 in shape:
        raise VramfitError(f"{flag}: {name}: found shape {size!r}, needed sizes from 1 on")
    if len(more) > 2:
        raise VramfitError(f"{flag}: {name}: found {text!r}, needed {_FORM}")
    dtype = _DTYPES.get(more[0]) if more else torch.float32
    if dtype is None:
        raise VramfitError(f"{flag}: {name}: found dtype {more[0]!r}, needed one of {', '.join(_DTYPES)}")
    bound = None
    if len(more) == 2:
        if not more[1].isdigit() or int(more[1]) < 1 or dtype.is_floating_point or dtype is torch.bool:
            raise VramfitError(f"{flag}: {name}: found bound {more[1]!r}, needed a whole number from 1 on, for integers")
        bound = int(more[1])
    return Written(name, shape, dtype, bound)
