"""Runs code that builds a model, and stops it where it begins to train."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterator

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..errors import VramfitError
from ..patches import Patches


@contextlib.contextmanager
def building(text: str) -> Iterator[None]:
    """Refuses backward passes and optimizer steps, and hides the command's own arguments, while a model is built."""
    place = text.rpartition(":")[0]

    def refuse(what: str) -> None:
        script = place if place.endswith(".py") else "SCRIPT"
        raise VramfitError(
            f"{text}: called {what}, needed code that only builds a model",
            f"name a function that returns the model; `python -m vramfit run {script}` dry-runs a whole training script",
        )

    # One function for each: `torch._dynamo`, which a model's file may import, keeps a table of torch's functions without duplicates.
    def refuse_backward(*_: Any, **__: Any) -> Any:
        refuse("backward")

    def refuse_grad(*_: Any, **__: Any) -> Any:
        refuse("autograd.grad")

    def refuse_step(optimizer: Any, *_: Any) -> None:
        refuse(f"{type(optimizer).__name__}.step")

    with Patches() as patches:
        # `Tensor.backward` calls it by this name.
        patches.set(torch.autograd, "backward", refuse_backward)
        patches.set(torch.autograd, "grad", refuse_grad)
        patches.set(sys, "argv", [place])
        hook = register_optimizer_step_pre_hook(refuse_step)
        try:
            yield
        except SystemExit as ended:
            raise VramfitError(
                f"{text}: ended the program ({ended}), needed a function that returns a model",
                "it is called without arguments, and `sys.argv` has none: name a function that reads none",
            ) from ended
        finally:
            hook.remove()
