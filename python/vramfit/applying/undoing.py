"""Changes to a model that can be reverted."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

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


def set_attribute(target: Any, name: str, value: Any) -> Undo:
    """Sets an attribute of the instance. If the instance had none, undo deletes it, so that the class's is used again."""
    before = vars(target).get(name, _MISSING)
    setattr(target, name, value)
    return functools.partial(delattr, target, name) if before is _MISSING else functools.partial(setattr, target, name, before)
