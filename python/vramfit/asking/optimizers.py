"""Describes a live optimizer of ``torch.optim``, bitsandbytes or transformers in the binary's terms."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..errors import SettingError
from .groups import Grouped, grouped

_NAMES = {
    "AdamW": "adamw", "Adam": "adam", "SGD": "sgd", "RMSprop": "rmsprop", "Adagrad": "adagrad", "Adadelta": "adadelta",
    "Adamax": "adamax", "NAdam": "nadam", "RAdam": "radam", "Adafactor": "adafactor", "Muon": "muon",
}
# bitsandbytes' name of the update, bits of the state, whether it is paged.
_BITSANDBYTES = {
    ("adam", 8, False): "adam8bit", ("adam", 8, True): "paged-adamw8bit", ("adam", 32, True): "paged-adamw",
    ("lion", 8, False): "lion8bit", ("lion", 32, False): "lion", ("lion", 8, True): "paged-lion8bit", ("lion", 32, True): "paged-lion",
}
# Arguments that add state tensors which the simulated optimizer does not have.
_MORE_STATE = {"RMSprop": ("momentum", "centered")}
_LEAST_8_BIT_SIZE = 4096


class Described(NamedTuple):
    """An optimizer as the command line names it, and which of its features are not modelled."""

    name: str
    implementation: str
    weight_decay: bool
    causes: Tuple[str, ...]
    groups: Optional[str] = None

    def settings(self) -> Dict[str, Any]:
        """The keywords for the command line's flags."""
        return {
            "optimizer": self.name, "optimizer_impl": self.implementation, "weight_decay": self.weight_decay, "optimizer_groups": self.groups,
        }


def describe(optimizer: Any, model: Optional[torch.nn.Module] = None) -> Described:
    """The binary's name for this optimizer. Raises if it keeps state that is not modelled.

    Muon and the AdamW for the weights that are not for Muon are given together, as a list.
    """
    if isinstance(optimizer, (list, tuple)):
        return _two(optimizer)
    kind = type(optimizer)
    if kind.__module__.startswith("bitsandbytes.optim"):
        return _of_bitsandbytes(optimizer, model)
    if kind.__module__ == "transformers.optimization" and kind.__name__ == "Adafactor":
        return _of_transformers(optimizer, model)
    known = _NAMES.get(kind.__name__)
    if known is None or not kind.__module__.startswith("torch.optim"):
        raise SettingError(
            f"optimizer: found {kind.__module__}.{kind.__name__}, needed one that is modelled: {', '.join(_NAMES)} of torch.optim, "
            "Adam, AdamW and Lion of bitsandbytes, Adafactor of transformers",
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
    causes = _causes(kind.__name__, groups)
    if known == "muon":
        return Described(known, "default", False, (*causes, "optimizer: the weights that Muon does not have are simulated with torch.optim.AdamW"))
    found = grouped(groups, model, lambda group: _adds_decay(kind.__name__, [group]))
    decays = found.text is None and _adds_decay(kind.__name__, groups)
    return _described(_name(kind.__name__, first), implementation(first), decays, causes, found)


def _described(name: str, how: str, decays: bool, causes: Sequence[str], found: Grouped) -> Described:
    return Described(name, how, decays, (*causes, *found.causes), found.text)


def _two(optimizers: Sequence[Any]) -> Described:
    """Muon with AdamW."""
    names = [describe(optimizer).name for optimizer in optimizers]
    if names != ["muon", "adamw"]:
        raise SettingError(
            f"optimizer: found {len(names)} optimizers ({', '.join(names)}), needed one, or torch.optim.Muon and torch.optim.AdamW in this order",
            "several other optimizers are not simulated together",
        )
    return Described("muon", "default", False, _causes("Muon", optimizers[0].param_groups))


def _of_bitsandbytes(optimizer: Any, model: Optional[torch.nn.Module]) -> Described:
    kind = type(optimizer).__name__
    key = (optimizer.optimizer_name, optimizer.args.optim_bits, optimizer.is_paged)
    name = _BITSANDBYTES.get(key)
    if name is None or optimizer.args.max_unorm:
        raise SettingError(
            f"optimizer: found bitsandbytes.optim.{kind} with states of {key[1]} bits, needed Adam or AdamW with 8 bits or paged, or Lion",
            "bitsandbytes' other optimizers are not modelled",
        )
    if name == "adam8bit" and kind.startswith("AdamW"):
        name = "adamw8bit"
    causes = []
    if optimizer.args.min_8bit_size != _LEAST_8_BIT_SIZE:
        causes.append(f"optimizer: {kind}(min_8bit_size={optimizer.args.min_8bit_size}) is simulated with {_LEAST_8_BIT_SIZE}")
    if optimizer.mng.pid2config or optimizer.mng.module_weight_config_triple:
        causes.append("optimizer: bitsandbytes' GlobalOptimManager overrides settings of single weights, which is not simulated")
    return _described(name, "default", False, causes, grouped(optimizer.param_groups, model, lambda _: False))


def _of_transformers(optimizer: Any, model: Optional[torch.nn.Module]) -> Described:
    groups: List[Dict[str, Any]] = optimizer.param_groups
    if any(group["beta1"] is not None for group in groups):
        raise SettingError("optimizer: transformers' Adafactor(beta1=…) keeps state that is not modelled", "use it without beta1")
    causes = []
    if any(group["scale_parameter"] or group["relative_step"] for group in groups):
        causes.append("optimizer: transformers' Adafactor is simulated with scale_parameter=False and relative_step=False")
    return _described("adafactor-hf", "default", False, causes, grouped(groups, model, lambda _: False))


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
    return kind in ("AdamW", "Adafactor", "Muon") or bool(group.get("decoupled_weight_decay"))


def _adds_decay(kind: str, groups: Sequence[Dict[str, Any]]) -> bool:
    return any(group.get("weight_decay") and not _decouples(kind, group) for group in groups)


def _causes(kind: str, groups: Sequence[Dict[str, Any]]) -> Tuple[str, ...]:
    """Arguments that change temporary memory or the order of operations, and are not modelled."""
    causes = [
        f"optimizer: {kind}({argument}=True) is simulated without it"
        for argument in ("maximize", "capturable", "differentiable") if any(group.get(argument) for group in groups)
    ]
    if kind != "Muon" and len({(_name(kind, group), implementation(group)) for group in groups}) > 1:
        causes.append("optimizer: its groups differ in more than weight decay, and all are simulated as the first")
    return tuple(causes)
