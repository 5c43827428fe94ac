"""Mixed precision: autocast, with a GradScaler for fp16."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

import torch

from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class MixedPrecision(LiveTrick):
    """Runs the forward pass and the loss under autocast. It changes the step only, so there is nothing to revert."""

    def apply(self, applied: "Applied") -> List[Undo]:
        name = applied.plan.parts.amp
        if name is not None:
            applied.forward_contexts.append(lambda device: torch.autocast(device.type, dtype=getattr(torch, name)))
        if name == "float16":
            applied.make_scaler = lambda device: torch.amp.grad_scaler.GradScaler(device.type)
        return []
