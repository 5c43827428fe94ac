"""Lightning: a callback that reports before the first step whether the training fits."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional

import torch

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback  # type: ignore

from ..answers.estimate import Estimate
from ..asking.questions import estimate
from ..errors import VramfitError
from .report import check_action, compare, device_settings, logger, report


class VramfitCallback(Callback):
    """Estimates the module's ``training_step`` with the first batch before it runs, and compares at the end of the training.

    ``on_misfit`` is ``"warn"`` or ``"raise"``; ``"raise"`` stops a training that cannot fit before its first step. ``settings``
    are those of ``vramfit.estimate``, such as ``vram="11GiB"``; without ``gpu`` and ``vram``, this machine's GPU is used.
    """

    def __init__(self, *, on_misfit: str = "warn", **settings: Any) -> None:
        super().__init__()
        self.on_misfit = check_action(on_misfit)
        self.settings = settings
        self.estimate: Optional[Estimate] = None
        self.comparison: Optional[str] = None
        self._is_done = False

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Runs before the first step, with the first batch as the training step gets it."""
        if self._is_done:
            return
        self._is_done = True
        try:
            settings = device_settings({**_settings(trainer), **self.settings})
            with _quiet(pl_module):
                self.estimate = estimate(_TrainingStep(pl_module), {"batch": batch}, optimizer=_optimizer(trainer), **settings)
        except VramfitError as problem:
            logger.warning("the training could not be estimated: %s", problem)
            return
        report(self.estimate, self.on_misfit)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Runs after the last step."""
        self.comparison = compare(self.estimate)


class _TrainingStep(torch.nn.Module):
    """A module whose forward is the training step of another module."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Any) -> Any:
        return self.module.training_step(batch, 0)  # type: ignore[operator]


@contextlib.contextmanager
def _quiet(module: Any) -> Iterator[None]:
    """Turns logging off inside the block, because tensors of a capture have no values."""
    def nothing(*_: Any, **__: Any) -> None:
        return None

    names = ("log", "log_dict")
    before = {name: vars(module)[name] for name in names if name in vars(module)}
    for name in names:
        object.__setattr__(module, name, nothing)
    try:
        yield
    finally:
        for name in names:
            if name in before:
                object.__setattr__(module, name, before[name])
            else:
                object.__delattr__(module, name)


def _optimizer(trainer: Any) -> Any:
    found = list(trainer.optimizers)
    if len(found) != 1:
        raise VramfitError(f"optimizer: found {len(found)} optimizers, needed one", "modules with several optimizers are not modelled")
    return found[0]


def _settings(trainer: Any) -> Dict[str, Any]:
    # Lightning copies each batch to the GPU and calls zero_grad between the forward and the backward pass.
    settings: Dict[str, Any] = {
        "accumulate": int(trainer.accumulate_grad_batches), "inputs_are": "fresh", "outputs": "released", "zero_grad": "before-backward",
    }
    precision = str(trainer.precision)
    if precision.endswith("-mixed"):
        settings["amp"] = "bf16" if precision.startswith("bf16") else "fp16"
    if trainer.gradient_clip_val:
        settings["clip_grad"] = True
    return settings
