"""Fused attention: a plan with it changes lines of the model, so it is printed, not applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ...errors import PlanError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class FusedAttention(LiveTrick):
    """``scaled_dot_product_attention`` in the place of products and a softmax that the model's own code calls."""

    def check(self, applied: "Applied") -> None:
        change = next((change for change in applied.plan.changes if change.trick == "fused attention"), None)
        if change is not None:
            raise PlanError(
                "this plan computes attention by scaled_dot_product_attention, which only the model's own code can call"
                + f": {change.after}",
                'edit these lines and plan again, or plan without it: vramfit.plan(…, keep=["fused-attention"])',
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        return []
