"""Where tensors are."""

from __future__ import annotations

from typing import Any


def is_on_gpu(value: Any) -> bool:
    """Whether a tensor, a module's weight, or a tensor in a structure is on a CUDA device."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.device.type == "cuda"
    if isinstance(value, torch.nn.Module):
        return any(is_on_gpu(weight) for weight in value.parameters())
    if hasattr(value, "values"):
        return any(is_on_gpu(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(is_on_gpu(item) for item in value)
