"""Several GPUs: a plan for them is printed, not applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ...errors import PlanError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class Spreading(LiveTrick):
    """Each process wraps the model when its group is there: nothing that one process could do to a live model."""

    def check(self, applied: "Applied") -> None:
        how = applied.plan.settings.get("parallel", "none")
        if how != "none":
            raise PlanError(
                f"this plan spreads the training over several GPUs ({how}), which cannot be applied to a model that is there already",
                "write the script as print(plan.code) shows, and start it with torchrun",
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        return []
