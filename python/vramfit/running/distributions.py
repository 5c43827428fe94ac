"""``torch.distributions`` checks its parameters' values, which are not computed on the GPU: they are taken to be valid."""

from __future__ import annotations

from typing import Any

import torch

from ..patches import Patches
from .recorder import ScriptRecorder


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has the checks of values run, and pass."""

    def is_all_true(valid: torch.Tensor) -> Any:
        # What torch._is_all_true calls.
        found = valid.all()
        info = recorder.info_of(found)
        return found if info.known and not info.storage.assumed else True

    patches.set(torch, "_is_all_true", is_all_true)
