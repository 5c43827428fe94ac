"""``Plan.apply``: a plan on a live model, its training step, and undo."""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterator, List, Optional

import torch

from ..errors import PlanError
from ..devices import is_on_gpu
from .batches import Micro, first_sizes, micro_batches, moved, with_channels_last
from .tricks import TRICKS
from .tricks.updates import is_changed
from .undoing import Undo

if TYPE_CHECKING:
    from ..answers.plan import Plan

# Models that a plan has changed and not given back.
_CHANGED: "weakref.WeakSet[torch.nn.Module]" = weakref.WeakSet()


class Applied:
    """A plan that has been applied to a model.

    ``step(inputs, targets)`` is the plan's whole training step. In your own loop, use ``autocast()`` around the forward pass,
    and ``backward(loss)`` and ``update()`` for each micro-batch. ``undo()``, or the end of a ``with`` block, reverts
    everything; weights that were cast stay rounded.
    """

    def __init__(
        self, plan: "Plan", model: torch.nn.Module, optimizer: Any, loss: Optional[Callable[..., Any]],
    ) -> None:
        self.plan = plan
        self.model = model
        self.optimizer: Any = optimizer
        self.outputs: Any = None
        self.loss: Optional[torch.Tensor] = None
        # Set by tricks. They take the device when it is needed: the model may be moved after this.
        self.forward_contexts: List[Callable[[torch.device], ContextManager[Any]]] = []
        self.make_scaler: Optional[Callable[[torch.device], Any]] = None
        self.input_dtype: Optional[torch.dtype] = None
        self.has_channels_last = False
        self._loss = loss
        self._scaler: Optional[Any] = None
        self._undo: List[Undo] = []
        self._inputs: Any = None
        self._targets: Any = None
        self._micro = 0
        self._accumulate: int = plan.settings["accumulate"]
        self._has_warned = False
        self._is_undone = False
        self._check()
        try:
            self._apply()
        except BaseException:
            self.undo()
            raise

    def _check(self) -> None:
        if not isinstance(self.model, torch.nn.Module):
            raise PlanError(f"model: found {type(self.model).__name__}, needed a torch.nn.Module")
        makes = is_changed(self) and callable(self.optimizer)
        if self.optimizer is not None and not isinstance(self.optimizer, torch.optim.Optimizer) and not makes:
            raise PlanError(f"optimizer: found {type(self.optimizer).__name__}, needed a torch.optim.Optimizer or None")
        if isinstance(self.optimizer, torch.optim.Optimizer) and not _shares_weights(self.optimizer, self.model):
            raise PlanError("optimizer: found none of the model's weights in it", "make it of the model's parameters, or leave it out")
        if self.model in _CHANGED:
            raise PlanError("a plan has been applied to this model already", "revert that first: applied.undo()")
        for trick in TRICKS:
            trick.check(self)

    def _apply(self) -> None:
        if is_on_gpu(self.model):
            # Cached blocks of earlier work are not in the simulation.
            torch.cuda.empty_cache()
        for trick in TRICKS:
            self._undo += trick.apply(self)
        if self._undo:
            _CHANGED.add(self.model)
            self._undo.insert(0, functools.partial(_CHANGED.discard, self.model))

    @property
    def scaler(self) -> Optional[Any]:
        """The GradScaler, created on the model's device when first needed; None if the plan has none."""
        if self._scaler is None and self.make_scaler is not None:
            self._scaler = self.make_scaler(self.device)
        return self._scaler

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def undo(self) -> None:
        """Reverts everything. A second call does nothing."""
        self._is_undone = True
        while self._undo:
            self._undo.pop()()
        self.outputs = self.loss = self._inputs = self._targets = None

    def _needs_plan(self, what: str) -> None:
        """Without the plan's changes a step would be another one than was simulated."""
        if self._is_undone:
            raise PlanError(f"applied.{what}: found a plan that was undone, needed one that is applied", "apply it again: plan.apply(model, optimizer)")

    def __enter__(self) -> "Applied":
        return self

    def __exit__(self, *_: Any) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"Applied to {type(self.model).__name__}: {self.plan!r}"

    # -- the plan's own step ------------------------------------------------------------------------------------------

    def step(self, inputs: Any, targets: Any = None) -> torch.Tensor:
        """One training step over a whole batch, divided into micro-batches if the plan accumulates; returns the loss.

        ``inputs`` is a dict of keyword arguments, a tuple, or one tensor. Tensors on another device are copied to the model's,
        one micro-batch at a time; those on the model's device are sliced. Give them where the example of ``vramfit.plan`` was:
        the plan is simulated so. If the plan holds outputs, ``outputs`` and ``loss`` are those of the last micro-batch.
        """
        self._needs_plan("step()")
        settings = self.plan.settings
        self._warn_about(inputs)
        micros = micro_batches(inputs, targets, self._accumulate)
        total: Optional[torch.Tensor] = None
        self.model.train()
        for number, micro in enumerate(micros):
            if number == 0 and settings["zero_grad"] == "before-forward":
                self.zero_grad()
            self._forward(micro)
            if settings["outputs"] == "released":
                self.outputs = None
            if number == 0 and settings["zero_grad"] == "before-backward":
                self.zero_grad()
            self._backward()
            total = self._added(total)
            if settings["outputs"] == "released":
                self.loss = None
        self._update()
        assert total is not None
        return total

    def _forward(self, micro: Micro) -> None:
        # As in the printed loop, a name is rebound only once its new value exists, and nothing else holds the old one.
        inputs = (micro.args, micro.kwargs)
        if self.has_channels_last:
            inputs = with_channels_last(inputs)
        self._inputs = moved(inputs, self.device, self.input_dtype)
        del inputs
        self._targets = moved(micro.targets, self.device, self.input_dtype)
        with self.autocast():
            self.outputs = self.model(*self._inputs[0], **self._inputs[1])
            if micro.share == 1 or self.plan.parts.adds_losses:
                self.loss = self._value(self.outputs, self._targets)
            elif micro.is_even:
                self.loss = self._value(self.outputs, self._targets) / micro.parts
            else:
                self.loss = self._value(self.outputs, self._targets) * micro.share

    def _backward(self) -> None:
        assert self.loss is not None
        (self.loss if self.scaler is None else self.scaler.scale(self.loss)).backward()

    def _added(self, total: Optional[torch.Tensor]) -> torch.Tensor:
        assert self.loss is not None
        return self.loss.detach() if total is None else total + self.loss.detach()

    def _value(self, outputs: Any, targets: Any) -> torch.Tensor:
        kind = self.plan.parts.loss
        if kind == "function" or self._loss is not None:
            if self._loss is None:
                raise PlanError("loss: found none, needed loss(outputs, targets): the plan was made with one", "plan.apply(model, optimizer, loss=…)")
            loss: torch.Tensor = self._loss(outputs, targets)
            return loss
        if kind == "cross-entropy":
            logits = first_output(outputs)
            if logits.dim() == 3:  # A sequence: its classes are the last dimension.
                return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
            return torch.nn.functional.cross_entropy(logits, targets)
        if kind == "mean":
            mean: torch.Tensor = first_output(outputs).mean()
            return mean
        if kind == "none":
            raise PlanError("loss: the plan was made without one, so there is no step to run", "give a loss to vramfit.plan")
        return returned_loss(outputs)

    def _warn_about(self, inputs: Any) -> None:
        settings, sizes = self.plan.settings, first_sizes(inputs)
        batch, sequence = settings.get("batch"), settings.get("sizes", {}).get("seq")
        planned = (("batch", None if batch is None else batch * self._accumulate), ("sequence", sequence))
        larger = [f"a {name} of {most}, and found one of {size}" for (name, most), size in zip(planned, sizes) if most is not None and size > most]
        if larger and not self._has_warned:
            self._has_warned = True
            warnings.warn(f"vramfit: the plan is for {'; for '.join(larger)}", stacklevel=3)

    # -- parts for the caller's own loop ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def autocast(self) -> Iterator[None]:
        """The context for the forward pass and the loss; it does nothing without mixed precision."""
        self._needs_plan("autocast()")
        with contextlib.ExitStack() as stack:
            for context in self.forward_contexts:
                stack.enter_context(context(self.device))
            yield

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of one micro-batch: the loss is divided by their number unless it is a sum, and scaled if the plan has a GradScaler."""
        self._needs_plan("backward()")
        loss = loss if self._accumulate == 1 or self.plan.parts.adds_losses else loss / self._accumulate
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self) -> bool:
        """Call it after each ``backward``. Steps the optimizer after the last micro-batch and returns whether it did."""
        self._needs_plan("update()")
        self._micro += 1
        if self._micro < self._accumulate:
            return False
        self._micro = 0
        self._update()
        self.zero_grad()
        return True

    def zero_grad(self) -> None:
        """As the plan says."""
        owner: Any = self.model if self.optimizer is None else self.optimizer
        owner.zero_grad(set_to_none=self.plan.settings["set_to_none"])

    def _update(self) -> None:
        optimizer = self.optimizer
        if self.plan.settings["clip_grad"]:
            if self.scaler is not None and optimizer is not None:
                self.scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if optimizer is None:
            return
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()


def _shares_weights(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> bool:
    """Whether the optimizer has a weight of the model, or either has none."""
    weights = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    own = {id(weight) for weight in model.parameters()}
    return not weights or not own or not weights.isdisjoint(own)


def first_output(outputs: Any) -> Any:
    """The first tensor of what a model returns."""
    if isinstance(outputs, torch.Tensor):
        return outputs
    values = list(outputs.values()) if hasattr(outputs, "values") else list(outputs)
    return values[0]


def returned_loss(outputs: Any) -> torch.Tensor:
    """The loss inside what a model returns."""
    loss = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    if loss is None and isinstance(outputs, (list, tuple)) and outputs:
        loss = outputs[0]
    if loss is None and isinstance(outputs, torch.Tensor):
        loss = outputs
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        raise PlanError(f"loss: found none in the model's {type(outputs).__name__}, needed one", "give the model its labels, or plan.apply(…, loss=…)")
    return loss
