"""The optimizer of a plan: switches the implementation of a live one, or creates one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch

from ...asking.optimizers import describe
from ...errors import PlanError, SettingError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied

_CLASSES: Dict[str, Any] = {
    "adamw": ("AdamW", {}), "adam": ("Adam", {}), "amsgrad": ("Adam", {"amsgrad": True}), "sgd": ("SGD", {}),
    "momentum": ("SGD", {"momentum": 0.9}), "nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}), "rmsprop": ("RMSprop", {}),
    "adagrad": ("Adagrad", {}), "adadelta": ("Adadelta", {}), "adamax": ("Adamax", {}), "nadam": ("NAdam", {}), "radam": ("RAdam", {}),
    "adafactor": ("Adafactor", {}),
}
_HOW: Dict[str, Dict[str, Optional[bool]]] = {
    "default": {"foreach": None, "fused": None}, "foreach": {"foreach": True, "fused": None},
    "fused": {"foreach": None, "fused": True}, "for-loop": {"foreach": False, "fused": None},
}


class Optimizer(LiveTrick):
    """Switches the given optimizer to the plan's implementation, or creates one if none is given."""

    def apply(self, applied: "Applied") -> List[Undo]:
        name, implementation = applied.plan.settings["optimizer"], applied.plan.settings["optimizer_impl"]
        if applied.optimizer is None:
            applied.optimizer = _make(applied.model, name, implementation)
            return []
        return _switch(applied.optimizer, name, implementation)


def _make(model: torch.nn.Module, name: str, implementation: str) -> Optional[torch.optim.Optimizer]:
    """Creates an optimizer with torch's default arguments; None if the plan has no optimizer."""
    if name == "none":
        return None
    kind, arguments = _CLASSES[name]
    how = {key: value for key, value in _HOW[implementation].items() if value is not None}
    made: torch.optim.Optimizer = getattr(torch.optim, kind)(model.parameters(), **arguments, **how)
    return made


def _switch(optimizer: torch.optim.Optimizer, name: str, implementation: str) -> List[Undo]:
    """Switches a live optimizer to the plan's implementation. Raises if its class is not the plan's."""
    try:
        described = describe(optimizer)
    except SettingError:
        if implementation == "default":
            return []
        raise
    if described.name != name:
        kind, arguments = _CLASSES.get(name, (name, {}))
        given = "".join(f", {key}={value}" for key, value in arguments.items())
        raise PlanError(
            f"optimizer: found {described.name}, needed {name}: this plan is for another optimizer",
            f"make it with your own arguments: plan.apply(model, torch.optim.{kind}(model.parameters(), lr=…{given}))",
        )
    if described.implementation == implementation:
        return []
    wanted = _HOW[implementation]
    if wanted["fused"] and "fused" not in optimizer.defaults:
        raise PlanError(f"optimizer: torch.optim has no fused {type(optimizer).__name__}", "choose a plan with another implementation")
    undo: List[Undo] = []
    for group in [*optimizer.param_groups, optimizer.defaults]:
        before = {key: group[key] for key in wanted if key in group}
        group.update({key: wanted[key] for key in before})
        undo.append(functools.partial(group.update, before))
    undo += _steps(optimizer, bool(wanted["fused"]))
    undo += _scaling(optimizer, bool(wanted["fused"]))
    return undo


def _steps(optimizer: torch.optim.Optimizer, is_fused: bool) -> List[Undo]:
    """Moves the step counters: fused kernels have them on the weights' device, the others on the CPU."""
    undo: List[Undo] = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state.get(parameter) or {}
            count = state.get("step")
            if isinstance(count, torch.Tensor) and not group.get("capturable"):
                device = parameter.device if is_fused else torch.device("cpu")
                if count.device != device:
                    state["step"] = count.to(device)

                    def back(state: Dict[str, Any] = state, device: torch.device = count.device) -> None:
                        state["step"] = state["step"].to(device)

                    undo.append(back)
    return undo


def _scaling(optimizer: torch.optim.Optimizer, is_fused: bool) -> List[Undo]:
    """Marks whether the optimizer divides by a GradScaler's scale itself, as fused steps do."""
    name = "_step_supports_amp_scaling"
    had = getattr(optimizer, name, False)
    if bool(had) == is_fused:
        return []
    setattr(optimizer, name, is_fused)
    return [functools.partial(setattr, optimizer, name, had)]
