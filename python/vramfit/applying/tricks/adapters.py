"""Adapters of peft: a plan with them is printed, not applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ...errors import PlanError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class Adapters(LiveTrick):
    """peft replaces the model's layers, and the optimizer holds other weights then: nothing that could be undone in place."""

    def check(self, applied: "Applied") -> None:
        if any(change.trick == "adapters" for change in applied.plan.changes):
            raise PlanError(
                "this plan trains adapters instead of the model, which cannot be applied to a model that is there already",
                "build the model as print(plan.code) shows, or apply another of the plans",
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        return []
