"""Accelerate: estimates a model wrapped by ``accelerator.prepare``, with the accelerator's settings."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator

import torch

from ..answers.estimate import Estimate
from ..asking.questions import estimate as estimate_plain
from .report import device_settings

_AMP = {"bf16": "bf16", "fp16": "fp16"}


def estimate(accelerator: Any, model: torch.nn.Module, inputs: Any, *, optimizer: Any = "adamw", **settings: Any) -> Estimate:
    """Like ``vramfit.estimate``, with the accelerator's mixed precision and accumulation, and this machine's GPU.

    ``model`` and ``optimizer`` may be what ``accelerator.prepare`` returned. ``settings`` override the accelerator's.
    """
    found: Dict[str, Any] = {"inputs_are": "fresh", "accumulate": max(1, int(accelerator.gradient_accumulation_steps))}
    amp = _AMP.get(str(accelerator.mixed_precision))
    if amp is not None:
        found["amp"] = amp
    with plain_forward(model) as module:
        return estimate_plain(module, inputs, optimizer=plain_optimizer(optimizer), **device_settings({**found, **settings}))


def plain_optimizer(optimizer: Any) -> Any:
    """The optimizer inside Accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


@contextlib.contextmanager
def plain_forward(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """The module without Accelerate's autocast, inside the block. Its results are cast to fp32, as Accelerate does."""
    module: Any = model
    while type(module).__name__ in ("DistributedDataParallel", "DataParallel") and isinstance(getattr(module, "module", None), torch.nn.Module):
        module = module.module
    own = vars(module)
    if "_original_forward" not in own or "forward" not in own:
        yield module
        return
    from accelerate.utils.operations import convert_outputs_to_fp32

    wrapped = own["forward"]
    module.forward = convert_outputs_to_fp32(own["_original_forward"])
    try:
        yield module
    finally:
        module.forward = wrapped
