"""The optimizer of a plan: switches the implementation of a live one, or creates one."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional

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
    "adafactor-hf": ("Adafactor", {"lr": 5e-5, "scale_parameter": False, "relative_step": False}),
    "adamw8bit": ("AdamW8bit", {}), "adam8bit": ("Adam8bit", {}), "lion8bit": ("Lion8bit", {}), "lion": ("Lion", {}),
    "paged-adamw8bit": ("PagedAdamW8bit", {}), "paged-adamw": ("PagedAdamW", {}), "paged-lion8bit": ("PagedLion8bit", {}),
    "paged-lion": ("PagedLion", {}),
}
_BITSANDBYTES = ("adamw8bit", "adam8bit", "lion8bit", "lion", "paged-adamw8bit", "paged-adamw", "paged-lion8bit", "paged-lion")
_HOW: Dict[str, Dict[str, Optional[bool]]] = {
    "default": {"foreach": None, "fused": None}, "foreach": {"foreach": True, "fused": None},
    "fused": {"foreach": None, "fused": True}, "for-loop": {"foreach": False, "fused": None},
}


class Optimizer(LiveTrick):
    """Switches the given optimizer to the plan's implementation, or creates one if none is given."""

    def apply(self, applied: "Applied") -> List[Undo]:
        settings = applied.plan.settings
        name, implementation = settings["optimizer"], settings["optimizer_impl"]
        if settings["step_in_backward"] or settings["optimizer_state"] == "cpu":
            return []
        if applied.optimizer is None:
            if name == "muon":
                raise PlanError("optimizer: found None, needed torch.optim.Muon: the plan has two optimizers", "carry the plan out in your own loop: print(plan.code)")
            applied.optimizer = make(name, implementation, applied.model.parameters())
            return []
        return switch(applied.optimizer, name, implementation)


def library(name: str) -> Any:
    """The module with an optimizer. Raises if it is not installed."""
    module = "bitsandbytes.optim" if name in _BITSANDBYTES else "transformers.optimization" if name == "adafactor-hf" else "torch.optim"
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PlanError(f"optimizer: {name} is of {module}, which cannot be imported: {error}", f"pip install {module.split('.')[0]}") from error


def make(name: str, implementation: str, weights: Iterable[torch.Tensor]) -> Optional[torch.optim.Optimizer]:
    """Creates an optimizer with its library's default arguments; None if the plan has no optimizer."""
    if name == "none":
        return None
    kind, arguments = _CLASSES[name]
    how = {key: value for key, value in _HOW[implementation].items() if value is not None}
    made: torch.optim.Optimizer = getattr(library(name), kind)(weights, **arguments, **how)
    return made


def switch(optimizer: torch.optim.Optimizer, name: str, implementation: str) -> List[Undo]:
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
            f"make it with your own arguments: plan.apply(model, {library(name).__name__}.{kind}(model.parameters(), lr=…{given}))",
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
