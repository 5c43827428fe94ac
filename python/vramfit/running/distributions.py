"""``torch.distributions`` checks its parameters' values, which are not computed on the GPU: they are taken to be valid."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..patches import Patches
from .recorder import ScriptRecorder


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has the checks of values run, and pass."""
    original: Callable[..., Any] = torch._is_all_true

    def is_all_true(valid: torch.Tensor) -> Any:
        found = original(valid)
        info = recorder.info_of(found)
        return found if info.known and not info.storage.assumed else True

    patches.set(torch, "_is_all_true", is_all_true)
