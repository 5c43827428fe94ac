"""What the training loop holds after a step: the structure that the model returned, and the loss in it."""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from .recorder import Recorder


def describe(value: Any, recorder: Recorder, depth: int = 8) -> Any:
    """A returned structure with tensors replaced by their numbers."""
    if isinstance(value, torch.Tensor):
        return recorder.info_of(value).name
    if value is None or isinstance(value, (bool, int, float)):
        return None
    if depth == 0:
        return None
    if isinstance(value, dict):
        items = {str(key): describe(item, recorder, depth - 1) for key, item in value.items()}
        # Hugging Face's outputs are dictionaries whose items are also attributes.
        has_attributes = all(getattr(value, str(key), None) is item for key, item in value.items())
        return {"class": type(value).__name__, "keys": not has_attributes, "items": items}
    if isinstance(value, (list, tuple)):
        return {"class": type(value).__name__, "items": [describe(item, recorder, depth - 1) for item in value]}
    own = getattr(value, "__dict__", None)
    if own and not isinstance(value, (type, torch.nn.Module)):
        items = {str(key): describe(item, recorder, depth - 1) for key, item in own.items()}
        items = {key: item for key, item in items.items() if item is not None}
        return {"class": type(value).__name__, "items": items} if items else None
    return None


def find_loss(outputs: Any, value: Any, recorder: Recorder) -> Optional[str]:
    """The scalar that backward starts from: the loss function's result, or the loss inside the outputs."""
    if isinstance(value, torch.Tensor):
        return recorder.info_of(value).name
    candidates: List[Any] = []
    if isinstance(outputs, torch.Tensor):
        candidates.append(outputs)
    elif isinstance(outputs, dict):
        candidates.append(outputs.get("loss"))
    elif isinstance(outputs, (list, tuple)) and outputs:
        candidates.append(outputs[0])
    else:
        candidates.append(getattr(outputs, "loss", None))
    for candidate in candidates:
        if isinstance(candidate, torch.Tensor) and candidate.dim() == 0 and candidate.is_floating_point():
            return recorder.info_of(candidate).name
    return None
