"""Saved tensors on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

import torch

from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class Offload(LiveTrick):
    """Keeps what autograd saves in host memory. It changes the step only, so there is nothing to revert."""

    def apply(self, applied: "Applied") -> List[Undo]:
        where = applied.plan.settings.get("offload_activations", "none")
        if where != "none":
            applied.forward_contexts.append(lambda device: torch.autograd.graph.save_on_cpu(pin_memory=where == "pinned"))
        return []
