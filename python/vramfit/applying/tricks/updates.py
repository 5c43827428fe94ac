"""Updates in the backward pass, and by an optimizer on the CPU."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List

import torch

from ...errors import PlanError
from ..undoing import Undo
from .optimizer import make
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied

Maker = Callable[[Iterable[torch.Tensor]], Any]


class Updates(LiveTrick):
    """Hooks that update each weight when it has its gradient, or an optimizer of copies on the CPU.

    Both make their optimizers themselves. ``plan.apply(model, lambda weights: torch.optim.AdamW(weights, lr=…))`` gives them other
    arguments.
    """

    def check(self, applied: "Applied") -> None:
        if is_changed(applied) and isinstance(applied.optimizer, torch.optim.Optimizer):
            raise PlanError(
                f"optimizer: found {type(applied.optimizer).__name__}, needed None or a function: the plan updates "
                + ("each weight with an optimizer of its own" if applied.plan.settings["step_in_backward"] else "copies of the weights on the CPU"),
                "plan.apply(model, lambda weights: torch.optim.AdamW(weights, lr=…))",
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        if not is_changed(applied):
            return []
        settings = applied.plan.settings
        given: Any = applied.optimizer
        maker: Maker = given or functools.partial(make, settings["optimizer"], settings["optimizer_impl"])
        copies = _copies(applied.model) if settings["optimizer_state"] == "cpu" else None
        if not settings["step_in_backward"]:
            assert copies is not None
            applied.optimizer = _OnCpu(applied.model, copies, maker(list(copies.values())))
            return []
        applied.optimizer = None
        return _hooks(applied.model, copies, maker)


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


def _hooks(model: torch.nn.Module, copies: Any, maker: Maker) -> List[Undo]:
    optimizers: Dict[torch.Tensor, Any] = {weight: maker([weight if copies is None else copies[weight]]) for weight in _trained(model)}

    def update(weight: torch.Tensor) -> None:
        optimizers[weight].step()
        optimizers[weight].zero_grad()

    @torch.no_grad()
    def update_on_cpu(weight: torch.Tensor) -> None:
        copies[weight].grad.copy_(weight.grad)
        weight.grad = None
        optimizers[weight].step()
        weight.copy_(copies[weight])

    hook = update if copies is None else update_on_cpu
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
