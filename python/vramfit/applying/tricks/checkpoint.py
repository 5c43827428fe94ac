"""Activation checkpointing."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any, Dict, List, Sequence

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from ...errors import PlanError
from ..undoing import Undo, module_of, set_attribute
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class Checkpointing(LiveTrick):
    """Frees activations and computes them again in the backward pass."""

    def apply(self, applied: "Applied") -> List[Undo]:
        parts = applied.plan.parts
        arguments = {"use_reentrant": False, **_keeping(parts.kept_operators)}
        if parts.is_every_block and hasattr(applied.model, "gradient_checkpointing_enable"):
            return [_checkpoint_blocks(applied.model, arguments)]
        undo = _checkpoint_modules(applied.model, parts.checkpointed, arguments)
        return undo if parts.segments is None else undo + _checkpoint_segments(applied.model, parts.segments)


def _keeping(operators: Sequence[str]) -> Dict[str, Any]:
    """The argument of ``checkpoint`` that keeps the results of these operators."""
    if not operators:
        return {}
    overloads = [operator.attrgetter(name)(torch.ops.aten) for name in operators]
    return {"context_fn": functools.partial(create_selective_checkpoint_contexts, overloads)}


def _checkpoint_blocks(model: Any, arguments: Dict[str, Any]) -> Undo:
    """As transformers does it, which also turns the cache of keys and values off."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=arguments)
    undo: Undo = model.gradient_checkpointing_disable
    return undo


def _checkpoint_modules(model: torch.nn.Module, names: Sequence[str], arguments: Dict[str, Any]) -> List[Undo]:
    modules = [module_of(model, name) for name in names]
    return [set_attribute(module, "forward", functools.partial(checkpoint, module.forward, **arguments)) for module in modules]


def _checkpoint_segments(model: torch.nn.Module, segments: int) -> List[Undo]:
    """Runs the outermost Sequential in segments and checkpoints all but the last."""
    sequential = next((part for part in model.modules() if isinstance(part, torch.nn.Sequential)), None)
    if sequential is None:
        raise PlanError(f"{type(model).__name__} has no Sequential, which the plan runs in {segments} segments", "apply the plan to the model it was made for")
    parts = list(sequential.children())

    def forward(input: Any) -> Any:
        return checkpoint_sequential(parts, segments, input, use_reentrant=False)

    return [set_attribute(sequential, "forward", forward)]
