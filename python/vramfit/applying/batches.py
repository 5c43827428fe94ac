"""Divides a batch into micro-batches and moves them to the model's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch


class Micro(NamedTuple):
    """One micro-batch: the model's arguments, and its share of the batch."""

    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    targets: Any
    share: float
    parts: int
    is_even: bool



def moved(value: Any, device: torch.device, dtype: Optional[torch.dtype]) -> Any:
    """Moves the tensors in a structure to a device, and casts floating-point tensors to the model's dtype."""
    return changed(value, lambda tensor: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None))


def with_channels_last(value: Any) -> Any:
    """Gives images in a structure their channels last."""
    return changed(value, lambda tensor: tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor)


def changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Applies a function to every tensor in a structure."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: changed(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(changed(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(changed(item, change) for item in value)
    return value


def first_sizes(value: Any) -> Tuple[int, ...]:
    """The shape of the first tensor that has dimensions; nothing without one."""
    found: List[Tuple[int, ...]] = []

    def look(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim():
            found.append(tuple(tensor.shape))
        return tensor

    changed(value, look)
    return found[0] if found else ()


def micro_batches(inputs: Any, targets: Any, count: int) -> List[Micro]:
    """Divides the batch into this many parts. Tensors whose first dimension is the batch are divided; each part gets all others whole."""
    args = () if isinstance(inputs, Mapping) else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    kwargs = dict(inputs) if isinstance(inputs, Mapping) else {}
    sizes = first_sizes(inputs)
    if count == 1 or not sizes:
        return [Micro(args, kwargs, targets, 1, 1, True)]
    size = sizes[0]
    length = -(-size // count)
    starts = range(0, size, length)

    def part(start: int) -> Micro:
        def cut(tensor: torch.Tensor) -> torch.Tensor:
            return tensor[start:start + length] if tensor.dim() and tensor.shape[0] == size else tensor

        share = (min(start + length, size) - start) / size
        return Micro(changed(args, cut), changed(kwargs, cut), changed(targets, cut), share, len(starts), size % length == 0)

    return [part(start) for start in starts]
