"""Hugging Face ``Trainer``: a callback that reports before the first step whether the training fits."""

from __future__ import annotations

from typing import Any, Dict, Optional

from transformers import TrainerCallback

from ..answers.estimate import Estimate
from ..asking.questions import estimate
from ..errors import VramfitError
from .accelerate import plain_forward, plain_optimizer
from .report import DoesNotFit, check_action, compare, device_settings, logger, report


class VramfitCallback(TrainerCallback):
    """Estimates the training described by the ``Trainer``'s arguments when it begins, and compares when it ends.

    ``inputs`` is an example batch, ideally the longest; without it the first samples of the training set are collated.
    ``on_misfit`` is ``"warn"`` or ``"raise"``; ``"raise"`` stops a training that cannot fit before its first step. ``settings``
    are those of ``vramfit.estimate``, such as ``vram="11GiB"``; without ``gpu`` and ``vram``, this machine's GPU is used.
    """

    def __init__(self, *, inputs: Optional[Any] = None, on_misfit: str = "warn", **settings: Any) -> None:
        self.inputs = inputs
        self.on_misfit = check_action(on_misfit)
        self.settings = settings
        self.estimate: Optional[Estimate] = None
        self.comparison: Optional[str] = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        """Runs before the first step."""
        try:
            inputs = self.inputs if self.inputs is not None else _example(known.get("train_dataloader"), args.train_batch_size)
            settings = device_settings({**_settings(args), **self.settings})
            with plain_forward(known["model"]) as model:
                self.estimate = estimate(model, inputs, optimizer=plain_optimizer(known["optimizer"]), batch=args.train_batch_size, **settings)
        except VramfitError as problem:
            logger.warning("the training could not be estimated: %s", problem)
            return
        try:
            report(self.estimate, self.on_misfit)
        except DoesNotFit:
            control.should_training_stop = True
            raise

    def on_train_end(self, args: Any, state: Any, control: Any, **known: Any) -> None:
        """Runs after the last step."""
        self.comparison = compare(self.estimate)


def _settings(args: Any) -> Dict[str, Any]:
    """The settings in the arguments. Gradient checkpointing is already part of the model."""
    # The Trainer copies each batch to the GPU and frees the outputs before the backward pass.
    settings: Dict[str, Any] = {"accumulate": args.gradient_accumulation_steps, "inputs_are": "fresh", "outputs": "released"}
    if args.bf16 or args.fp16:
        settings["amp"] = "bf16" if args.bf16 else "fp16"
    if args.max_grad_norm:
        settings["clip_grad"] = True
    return settings


def _example(loader: Any, batch: int) -> Any:
    """The first samples as a batch. Iterating the data loader itself would change the order of the training."""
    dataset, collate = getattr(loader, "dataset", None), getattr(loader, "collate_fn", None)
    if dataset is None or collate is None or not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise VramfitError("inputs: found a training set without numbered samples, needed an example batch", "VramfitCallback(inputs=…)")
    return dict(collate([dataset[at] for at in range(min(batch, len(dataset)))]))
