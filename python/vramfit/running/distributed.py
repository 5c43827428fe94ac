"""Distributed training, which is not followed: a script that joins a process group is refused at that line."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import VramfitError
from ..patches import Patches
from .recorder import ScriptRecorder


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Refuses process groups."""

    def init_process_group(*_: Any, **__: Any) -> None:
        raise VramfitError(
            f"{recorder.where()}: found init_process_group, needed a script for one GPU: distributed training is not followed",
            "start the script without torchrun, or with its own option for a single GPU",
        )

    if torch.distributed.is_available():
        patches.set(torch.distributed, "init_process_group", init_process_group)
