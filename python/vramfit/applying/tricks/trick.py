"""What every trick on a live model implements."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ..undoing import Undo

if TYPE_CHECKING:
    from ..applied import Applied


class LiveTrick:
    """Applies one trick's settings and parts of a plan. A plan without them changes nothing."""

    def check(self, applied: "Applied") -> None:
        """Raises if the trick cannot be applied. Called before anything is changed."""

    def apply(self, applied: "Applied") -> List[Undo]:
        """Changes the model, the optimizer or the step; returns what reverts it."""
        raise NotImplementedError
