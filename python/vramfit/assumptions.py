"""Values that are assumed where a model's way depends on numbers computed from its weights, which a capture does not have.

Unknown floats are replaced by evenly spread numbers, half of them positive, and choices along a dimension (``topk``, ``argmax``)
by choices that use every index equally often, as a router with balanced experts makes them. What follows from these values is
computed for real, so that masks, indices and counts fit together. ``share`` sets how many elements of a mask are true instead.

A pass that depends on such values is recorded twice more, so that an answer has bounds: with as little chosen as possible, and with
as much as possible, all of it by the same choice.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .operators import Operator, base_name
from .tensors import Info, numel

# Larger masks and indices stay unknown.
LARGEST = 1 << 22
_CHOOSES = frozenset(f"aten::{name}" for name in "topk argmax argmin max min sort argsort kthvalue median mode multinomial msort".split())
# What makes shares of one, what picks some of the numbers that it is given, and what does so where it is given one tensor.
_SHARES = frozenset(f"aten::{name}" for name in "sigmoid softmax _softmax".split())
_PICKS = frozenset(f"aten::{name}" for name in "index index_select gather masked_select take clone topk sort".split())
# The argument with the boundaries.
_BOUNDARIES: Dict[str, int] = {"aten::bucketize.Tensor": 1, "aten::searchsorted.Tensor": 0}
_EXTREMES = frozenset(f"aten::{name}" for name in "max min amax amin".split())


class Assumed(enum.Enum):
    """Which values a pass assumes where its way depends on them."""

    EXPECTED = "expected"
    LEAST = "least"
    MOST = "most"


@functools.lru_cache(maxsize=8)
def _pattern(phase: int) -> torch.Tensor:
    at = torch.arange(1 << 16, device="cpu") + phase
    size = ((at * 40503 + 7919 * phase) % 65521 + 1).to(torch.float32) / 65522
    return torch.where(at % 2 == 0, size, -size)


def bounds(operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info]) -> Optional[Tuple[float, float]]:
    """Between which numbers the results of a call are, whatever it is given."""
    name = base_name(operator.qualified)
    if name in _SHARES:
        return 0.0, 1.0
    if infos and not infos[0].known and (name in _PICKS or (name in _EXTREMES and len(infos) == 1)):
        return infos[0].storage.bounds
    if name == "aten::clamp":
        named = dict(zip(operator.arguments, args), **kwargs)
        least, most = named.get("min"), named.get("max")
        if isinstance(least, (int, float)) and isinstance(most, (int, float)) and least <= most:
            return float(least), float(most)
    return None


def spread(
    shape: Sequence[int], dtype: torch.dtype, phase: int, assumed: Assumed = Assumed.EXPECTED, between: Optional[Tuple[float, float]] = None,
) -> torch.Tensor:
    """Numbers between -1 and 1 in an order without a small period, every second one positive: all of them for the most, none for the
    least. Integers are zeros. Numbers that are known to be ``between`` two are spread over these, some of them on the bounds; for the
    most all are the greatest, for the least the least."""
    if not dtype.is_floating_point:
        return torch.zeros(tuple(shape), dtype=dtype, device="cpu")
    pattern, count = _pattern(phase % 8), numel(tuple(shape))
    if between is not None:
        least, most = between
        share = {Assumed.LEAST: torch.zeros_like(pattern), Assumed.MOST: torch.ones_like(pattern)}.get(assumed)
        pattern = least + (most - least) * ((pattern.abs() * 1.5 - 0.25).clamp(0, 1) if share is None else share)
    elif assumed is not Assumed.EXPECTED:
        pattern = pattern.abs() if assumed is Assumed.MOST else -pattern.abs()
    pattern = pattern[:count] if count <= len(pattern) else pattern.repeat(-(-count // len(pattern)))[:count]
    return pattern.reshape(tuple(shape)).to(dtype)


def _chosen(shape: Sequence[int], dtype: torch.dtype, dim: int, count: int, largest: bool, assumed: Assumed) -> torch.Tensor:
    """Scores from which row after row chooses the next ``count`` indices along ``dim``: all of them the same ones for the most."""
    size = shape[dim]
    rows = torch.arange(numel(tuple(shape)) // max(size, 1), device="cpu").reshape([side for at, side in enumerate(shape) if at != dim])
    if assumed is Assumed.MOST:
        rows = torch.zeros_like(rows)
    order = (torch.arange(size, device="cpu") - rows.unsqueeze(-1) * count) % max(size, 1)
    scores = (size - order) if largest else order + 1
    return (scores.to(torch.float64) / (size + 1)).movedim(-1, dim).to(dtype).contiguous()


def _boxes(count: int, dtype: torch.dtype, assumed: Assumed) -> torch.Tensor:
    """Boxes of which one suppresses all others for the least, and none any other for the most."""
    corner = torch.arange(count, device="cpu") * (2 if assumed is Assumed.MOST else 0)
    return torch.stack([corner, corner, corner + 1, corner + 1], dim=1).to(dtype)


def stand_ins(
    operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info], tensors: Sequence[torch.Tensor],
    deciding: Sequence[Info], assumed: Assumed,
) -> List[torch.Tensor]:
    """The arguments of a call, those with unknown values replaced: by zeros where they do not decide on anything."""
    named = dict(zip(operator.arguments, args), **kwargs)
    found = []
    for at, (info, tensor) in enumerate(zip(infos, tensors)):
        kind = info.kind
        if info.known:
            found.append(tensor if not operator.writes else tensor.clone())
        elif info not in deciding:
            found.append(kind.zeros())
        elif at == 0 and base_name(operator.qualified) in _CHOOSES and kind.shape and kind.dtype.is_floating_point:
            dim = named.get("dim", -1)
            dim = dim if isinstance(dim, int) else -1
            count = named.get("k", named.get("num_samples", 1))
            found.append(_chosen(kind.shape, kind.dtype, dim % len(kind.shape), count, operator.qualified != "aten::argmin" and named.get("largest", True), assumed))
        elif at == 0 and operator.qualified == "torchvision::nms" and assumed is not Assumed.EXPECTED:
            found.append(_boxes(kind.shape[0], kind.dtype, assumed))
        else:
            inside = _inside(operator, at, infos, tensors)
            found.append(spread(kind.shape, kind.dtype, at, assumed, info.storage.bounds if inside is None else inside))
    return found


def _inside(operator: Operator, at: int, infos: Sequence[Info], tensors: Sequence[torch.Tensor]) -> Optional[Tuple[float, float]]:
    """Between which numbers are those whose places among boundaries are looked for: code relies on there being a place."""
    boundaries = _BOUNDARIES.get(operator.qualified)
    if boundaries is None or boundaries == at or boundaries >= len(infos) or not infos[boundaries].known:
        return None
    known = tensors[boundaries].to(torch.float64)
    if known.numel() == 0:
        return None
    least, most = float(known.min()), float(known.max())
    return least + (most - least) / 64, most - (most - least) / 64


def mask(shape: Sequence[int], share: float) -> torch.Tensor:
    """A mask of which this share is true, evenly spread."""
    at = torch.arange(numel(tuple(shape)), dtype=torch.float64, device="cpu")
    return ((at + 1) * share).floor().gt((at * share).floor()).reshape(tuple(shape))


def share_of(values: Sequence[torch.Tensor]) -> Optional[float]:
    """The share of true elements in the first mask of these."""
    for value in values:
        if value.dtype in (torch.bool, torch.uint8) and value.numel():
            return float(value.count_nonzero()) / value.numel()
    return None
