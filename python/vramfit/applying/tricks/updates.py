"""Updates in the backward pass, and by an optimizer on the CPU."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List

import torch

from ...errors import PlanError
from ..undoing import Undo
from .optimizer import make, switch
from .part import Part
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied

Maker = Callable[[Iterable[torch.Tensor]], Any]


class Updates(LiveTrick):
    """Hooks that update each weight when it has its gradient, or an optimizer of copies on the CPU.

    A given optimizer is divided: its parts have its state and follow its options. Without one, and with a function such as
    ``lambda weights: torch.optim.AdamW(weights, lr=…)``, optimizers are made.
    """

    def check(self, applied: "Applied") -> None:
        given = applied.optimizer
        if not is_changed(applied) or not isinstance(given, torch.optim.Optimizer):
            return
        known = set(applied.model.parameters())
        strangers = sum(weight not in known for group in given.param_groups for weight in group["params"])
        if strangers:
            raise PlanError(
                f"optimizer: found {strangers} weights that are not the model's, needed an optimizer of the model's weights: the plan updates "
                + ("each of them in its backward pass" if applied.plan.settings["step_in_backward"] else "copies of them on the CPU"),
                "give the other weights an optimizer of their own",
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        if not is_changed(applied):
            return []
        settings = applied.plan.settings
        given: Any = applied.optimizer
        copies = _copies(applied.model) if settings["optimizer_state"] == "cpu" else {}
        undo: List[Undo] = []
        if isinstance(given, torch.optim.Optimizer):
            undo += switch(given, settings["optimizer"], settings["optimizer_impl"])
            optimizers = _divided(given, copies, settings["step_in_backward"])
            undo += [optimizer.give_back for optimizer in optimizers]
        else:
            maker: Maker = given or functools.partial(make, settings["optimizer"], settings["optimizer_impl"])
            weights = [copies.get(weight, weight) for weight in _trained(applied.model)]
            optimizers = [maker([weight]) for weight in weights] if settings["step_in_backward"] else [maker(weights)]
        if settings["step_in_backward"]:
            applied.optimizer = None
            return undo + _hooks(applied.model, copies, optimizers)
        applied.optimizer = _OnCpu(applied.model, copies, optimizers[0])
        return undo


def is_changed(applied: "Applied") -> bool:
    """Whether the plan updates weights in another way than ``optimizer.step()``."""
    settings = applied.plan.settings
    return bool(settings["step_in_backward"] or settings["optimizer_state"] == "cpu")


def _trained(model: torch.nn.Module) -> List[torch.nn.Parameter]:
    return [weight for weight in model.parameters() if weight.requires_grad]


def _copies(model: torch.nn.Module) -> Dict[torch.Tensor, torch.Tensor]:
    """A copy of each weight in the CPU's memory, pinned if the weight is on a GPU, with a gradient."""
    copies: Dict[torch.Tensor, torch.Tensor] = {}
    for weight in _trained(model):
        copy = torch.empty_like(weight, device="cpu", pin_memory=weight.is_cuda, requires_grad=False)
        copies[weight] = copy.copy_(weight.detach())
        copy.grad = torch.zeros_like(copy, pin_memory=weight.is_cuda)
    return copies


def _divided(optimizer: torch.optim.Optimizer, copies: Dict[torch.Tensor, torch.Tensor], is_by_weight: bool) -> List[Part]:
    """The parts of an optimizer: one for each weight that is trained, or one for all."""
    groups = [(group, [weight for weight in group["params"] if weight.requires_grad]) for group in optimizer.param_groups]
    if is_by_weight:
        return [Part(optimizer, [(group, [weight])], copies) for group, weights in groups for weight in weights]
    return [Part(optimizer, groups, copies)]


def _hooks(model: torch.nn.Module, copies: Dict[torch.Tensor, torch.Tensor], each: List[Any]) -> List[Undo]:
    updated = {optimizer.param_groups[0]["params"][0]: optimizer for optimizer in each}
    pairs = [(weight, copies.get(weight, weight)) for weight in _trained(model)]
    optimizers: Dict[torch.Tensor, Any] = {weight: updated[other] for weight, other in pairs if other in updated}

    def update(weight: torch.Tensor) -> None:
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    @torch.no_grad()
    def update_on_cpu(weight: torch.Tensor) -> None:
        copy = copies[weight]
        assert weight.grad is not None and copy.grad is not None
        copy.grad.copy_(weight.grad)
        weight.grad = None
        optimizers[weight].step()
        weight.copy_(copy)

    hook = update_on_cpu if copies else update
    return [weight.register_post_accumulate_grad_hook(hook).remove for weight in optimizers]


class _OnCpu:
    """An optimizer of copies, in place of one of the weights."""

    def __init__(self, model: torch.nn.Module, copies: Dict[torch.Tensor, torch.Tensor], optimizer: Any) -> None:
        self.model, self.copies, self.optimizer = model, copies, optimizer

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.model.zero_grad(set_to_none=set_to_none)

    @torch.no_grad()
    def step(self) -> None:
        for weight, copy in self.copies.items():
            if weight.grad is not None and copy.grad is not None:
                copy.grad.copy_(weight.grad)
        self.optimizer.step()
        for weight, copy in self.copies.items():
            weight.copy_(copy)
