"""What a library gives the sweep: ways to build a model, and example inputs for it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

import torch

BATCH = 2
SEQUENCE = 32


class Example(NamedTuple):
    """One way to call a model: how to build it, and what to pass to it."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[torch.nn.Module], Any]
    loss: Optional[Callable[[Any, Any], torch.Tensor]] = None
    note: str = ""


def floats_in(value: Any, depth: int = 6) -> Iterator[torch.Tensor]:
    """The floating-point tensors in a returned structure."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() or value.is_complex():
            yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from floats_in(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from floats_in(item, depth - 1)
    elif depth and hasattr(value, "__dict__") and not isinstance(value, torch.nn.Module):
        for item in vars(value).values():
            yield from floats_in(item, depth - 1)


def total(outputs: Any, _: Any) -> torch.Tensor:
    """The model's own loss if it returns one, else the sum of all outputs that depend on the weights."""
    own = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad and own.dim() == 0:
        return own
    terms = [tensor for tensor in floats_in(outputs) if tensor.requires_grad]
    if not terms:
        raise ValueError("no output depends on the weights")
    found = None
    for term in terms:
        term = term.abs() if term.is_complex() else term
        found = term.sum() if found is None else found + term.sum()
    return found


@contextlib.contextmanager
def _without_initialization() -> Iterator[None]:
    """Leaves weights uninitialized: a capture has no use for their values."""
    saved: Dict[str, Any] = {}
    for name, value in vars(torch.nn.init).items():
        if name.endswith("_") and not name.startswith("_") and callable(value):
            saved[name] = value
    try:
        for name in saved:
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
        yield
    finally:
        for name, value in saved.items():
            setattr(torch.nn.init, name, value)


def built(build: Callable[[], torch.nn.Module]) -> "tuple[torch.nn.Module, str]":
    """The model on the meta device, or on the CPU if its constructor reads values."""
    try:
        with torch.device("meta"):
            return build(), "meta"
    except Exception:  # noqa: BLE001 - whatever its constructor raises on meta tensors
        with _without_initialization():
            return build(), "cpu"


def integers(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    """Integers of one seed in ``low`` to ``high``."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(low, max(high, low + 1), shape, generator=generator)


def floats(*shape: int) -> torch.Tensor:
    """Floats of one seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))
