"""What is fixed for a plan that will be applied to a live model: where its batches are, and the allocator's settings."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping

from ..devices import is_on_gpu


def as_applied(model: Any, inputs: Any, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """The settings with those that ``Plan.apply`` cannot choose, unless they are given. Names in ``keep`` are added to them; an
    empty ``keep`` leaves all to the plan.

    ``Applied.step`` copies a batch on the CPU to the GPU, one micro-batch at a time, and slices a batch that is on the GPU.
    Memory that a model on the GPU already has keeps the allocator settings it was allocated with.
    """
    found = dict(settings)
    if isinstance(model, (str, os.PathLike)):
        return found
    keep = found.get("keep")
    if keep is None or keep:
        named = keep.split(",") if isinstance(keep, str) else list(keep or ())
        # With the first two, the optimizer is made weight by weight, or for copies of the weights. The third changes the model's own lines.
        fixed = ["optimizer-state", "step-in-backward", "fused-attention"]
        if is_on_gpu(inputs):
            # A batch that is on the GPU would be copied there to have its channels last.
            fixed.append("channels-last")
        found["keep"] = named + [name for name in fixed if name not in named]
    if found.get("inputs_are") is None:
        found["inputs_are"] = "whole" if is_on_gpu(inputs) else "fresh"
    if found.get("alloc_conf") is None and is_on_gpu(model):
        found["alloc_conf"] = present_allocator_settings() or "expandable_segments:False"
    return found


def present_allocator_settings() -> str:
    """The allocator settings that this process started with; empty for torch's defaults."""
    return os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
