"""The CUDA allocator's settings."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, List

import torch

from ...asking.live import present_allocator_settings
from ...devices import is_on_gpu
from ...errors import PlanError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied

_EXPANDABLE = "expandable_segments:True"


class AllocatorSettings(LiveTrick):
    """Changes the settings for allocations from now on; does nothing without a GPU."""

    def apply(self, applied: "Applied") -> List[Undo]:
        settings: str = applied.plan.settings["alloc_conf"]
        if not settings or not torch.cuda.is_available():
            return []
        former = present_allocator_settings()
        if _EXPANDABLE in settings and _EXPANDABLE not in former and is_on_gpu(applied.model):
            warnings.warn(
                f"vramfit: {_EXPANDABLE} affects memory allocated from now on, and the model is on the GPU already, so the plan may "
                "not fit: apply it before the model is moved, or make it for the model on the GPU", stacklevel=6,
            )
        _change(settings)
        back = former or ("expandable_segments:False" if "expandable_segments" in settings else None)
        return [] if back is None else [functools.partial(_change, back)]


def _change(settings: str) -> None:
    for name in ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"):
        change = getattr(torch._C, name, None)
        if change is not None:
            change(settings)
            return
    raise PlanError(f"torch {torch.__version__} has no way to change the allocator's settings", f"set PYTORCH_CUDA_ALLOC_CONF={settings} in the shell")
