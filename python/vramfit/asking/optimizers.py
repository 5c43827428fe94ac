"""Describes a live ``torch.optim`` optimizer in the binary's terms."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..errors import SettingError

_NAMES = {
    "AdamW": "adamw", "Adam": "adam", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Adadelta": "adadelta",
    "Adamax": "adamax", "NAdam": "nadam", "RAdam": "radam", "Adafactor": "adafactor",
}
# Arguments that add state tensors which the simulated optimizer does not have.
_MORE_STATE = {"RMSprop": ("momentum", "centered")}


class Described(NamedTuple):
    """An optimizer as the command line names it, and which of its features are not modelled."""

    name: str
    implementation: str
    weight_decay: bool
    causes: Tuple[str, ...]

    def settings(self) -> Dict[str, Any]:
        """The keywords for the command line's flags."""
        return {"optimizer": self.name, "optimizer_impl": self.implementation, "weight_decay": self.weight_decay}


def describe(optimizer: Any, model: Optional[torch.nn.Module] = None) -> Described:
    """The binary's name for this optimizer. Raises if it keeps state that is not modelled."""
    kind = type(optimizer)
    known = _NAMES.get(kind.__name__)
    if known is None or not kind.__module__.startswith("torch.optim"):
        raise SettingError(
            f"optimizer: found {kind.__module__}.{kind.__name__}, needed one of torch.optim that is modelled: {', '.join(_NAMES)}",
            "name the one that keeps the same state, such as optimizer=\"adamw\"; what it does otherwise is not modelled",
        )
    groups: List[Dict[str, Any]] = optimizer.param_groups
    first = groups[0]
    for argument in _MORE_STATE.get(kind.__name__, ()):
        if any(group.get(argument) for group in groups):
            raise SettingError(
                f"optimizer: {kind.__name__}({argument}={first.get(argument)!r}) keeps state that is not modelled",
                f"use {kind.__name__} without {argument}, or ask for optimizer={known!r} and add one tensor for each weight yourself",
            )
    return Described(_name(kind.__name__, first), implementation(first), _adds_decay(kind.__name__, groups), _causes(kind.__name__, groups, model))


def _name(kind: str, group: Dict[str, Any]) -> str:
    if kind == "SGD" and group.get("momentum"):
        return "nesterov" if group.get("nesterov") else "momentum"
    return "amsgrad" if group.get("amsgrad") else _NAMES[kind]


def implementation(group: Dict[str, Any]) -> str:
    """The implementation that the optimizer uses for a group."""
    if group.get("fused"):
        return "fused"
    if group.get("foreach") is None:
        # torch chooses only if neither is given.
        return "for-loop" if group.get("fused") is False else "default"
    return "foreach" if group["foreach"] else "for-loop"


def _decouples(kind: str, group: Dict[str, Any]) -> bool:
    """Whether weight decay multiplies the weights themselves, which needs no memory."""
    return kind in ("AdamW", "Adafactor") or bool(group.get("decoupled_weight_decay"))


def _adds_decay(kind: str, groups: Sequence[Dict[str, Any]]) -> bool:
    return any(group.get("weight_decay") and not _decouples(kind, group) for group in groups)


def _causes(kind: str, groups: Sequence[Dict[str, Any]], model: Optional[torch.nn.Module]) -> Tuple[str, ...]:
    """Arguments that change temporary memory or the order of operations, and are not modelled."""
    causes = [
        f"optimizer: {kind}({argument}=True) is simulated without it"
        for argument in ("maximize", "capturable", "differentiable") if any(group.get(argument) for group in groups)
    ]
    if len(groups) > 1:
        causes.append(f"optimizer: its {len(groups)} groups of parameters are simulated as one")
    if model is not None:
        held: Set[int] = {id(parameter) for group in groups for parameter in group["params"]}
        missed = sum(parameter.requires_grad and id(parameter) not in held for parameter in model.parameters())
        if missed:
            causes.append(f"optimizer: {missed} parameters of the model are not in it, and are simulated as if they were")
    return tuple(causes)
