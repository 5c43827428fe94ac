"""In-place activations."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ...errors import PlanError
from ..undoing import Undo, module_of, set_attribute
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class InPlace(LiveTrick):
    """Sets activations to write into their input."""

    def apply(self, applied: "Applied") -> List[Undo]:
        names = applied.plan.parts.in_place
        modules = [module_of(applied.model, name) for name in names]
        for name, module in zip(names, modules):
            if not hasattr(module, "inplace"):
                raise PlanError(f"{name}: found {type(module).__name__}, needed an activation with `inplace`", "apply the plan to the model it was made for")
        return [set_attribute(module, "inplace", True) for module in modules]
