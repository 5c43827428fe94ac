"""The changes to a model, one function each. Every function returns callables that revert the change."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, List, Sequence

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from ..errors import PlanError

Undo = Callable[[], Any]
_MISSING = object()


def module_of(model: torch.nn.Module, name: str) -> torch.nn.Module:
    """A module by its name. Raises an error that names the missing module."""
    try:
        return model.get_submodule(name)
    except AttributeError:
        raise PlanError(
            f"{type(model).__name__} has no module {name!r}, which the plan names", "apply the plan to the model it was made for, unwrapped",
        ) from None


def _set(target: Any, name: str, value: Any) -> Undo:
    """Sets an attribute of the instance. If the instance had none, undo deletes it, so that the class's is used again."""
    before = vars(target).get(name, _MISSING)
    setattr(target, name, value)
    return functools.partial(delattr, target, name) if before is _MISSING else functools.partial(setattr, target, name, before)


def checkpoint_modules(model: torch.nn.Module, names: Sequence[str]) -> List[Undo]:
    """Checkpoints these modules: their activations are freed and computed again in the backward pass."""
    modules = [module_of(model, name) for name in names]
    return [_set(module, "forward", functools.partial(checkpoint, module.forward, use_reentrant=False)) for module in modules]


def checkpoint_segments(model: torch.nn.Module, segments: int) -> List[Undo]:
    """Runs the outermost Sequential in segments and checkpoints all but the last."""
    sequential = next((part for part in model.modules() if isinstance(part, torch.nn.Sequential)), None)
    if sequential is None:
        raise PlanError(f"{type(model).__name__} has no Sequential, which the plan runs in {segments} segments", "apply the plan to the model it was made for")
    parts = list(sequential.children())

    def forward(input: Any) -> Any:
        return checkpoint_sequential(parts, segments, input, use_reentrant=False)

    return [_set(sequential, "forward", forward)]


def in_place(model: torch.nn.Module, names: Sequence[str]) -> List[Undo]:
    """Sets these activations to write into their input."""
    modules = [module_of(model, name) for name in names]
    for name, module in zip(names, modules):
        if not hasattr(module, "inplace"):
            raise PlanError(f"{name}: found {type(module).__name__}, needed an activation with `inplace`", "apply the plan to the model it was made for")
    return [_set(module, "inplace", True) for module in modules]


def cast(model: torch.nn.Module, dtype: torch.dtype) -> List[Undo]:
    """Casts the whole model. Undo restores the dtypes, but the weights stay rounded."""
    before = [(tensor, tensor.dtype) for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    buffers = {id(tensor): old for tensor, old in before}
    names = [(name, buffers[id(tensor)]) for name, tensor in model.named_buffers() if id(tensor) in buffers]
    model.to(dtype)

    def back() -> None:
        for tensor, old in before:
            tensor.data = tensor.data.to(old)
        # `to` replaces buffers instead of changing them.
        for name, old in names:
            owner, _, last = name.rpartition(".")
            holder = model.get_submodule(owner)
            setattr(holder, last, getattr(holder, last).to(old))

    return [back]


def allocator(settings: str) -> List[Undo]:
    """Changes the CUDA allocator's settings for allocations from now on; does nothing without a GPU."""
    if not torch.cuda.is_available():
        return []
    _set_allocator(settings)
    former = os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    back = former or ("expandable_segments:False" if "expandable_segments" in settings else None)
    return [] if back is None else [functools.partial(_set_allocator, back)]


def _set_allocator(settings: str) -> None:
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        change = getattr(torch._C, name, None)
        if change is not None:
            change(settings)
            return
    raise PlanError(f"torch {torch.__version__} has no way to change the allocator's settings", f"set PYTORCH_CUDA_ALLOC_CONF={settings} in the shell")
