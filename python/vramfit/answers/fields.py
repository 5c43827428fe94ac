"""Fields that several answers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from .units import human


@dataclass(frozen=True)
class Range:
    """A lower and an upper bound, in bytes."""

    low: int
    high: int


@dataclass(frozen=True)
class Fit:
    """Whether it fits: ``verdict`` is ``fits``, ``too-close`` or ``does-not-fit``."""

    gpu: Optional[str]
    capacity: Optional[int]
    verdict: str
    capacity_high: Optional[int] = None
    """The upper bound of the capacity, if the catalogue has only bounds; ``capacity`` is then the lower one."""

    @property
    def room(self) -> str:
        """The capacity as text."""
        if self.capacity is None:
            return ""
        if self.capacity_high is None or self.capacity_high == self.capacity:
            return human(self.capacity)
        return f"{human(self.capacity)} to {human(self.capacity_high)}"

    @staticmethod
    def of(raw: Optional[Dict[str, Any]]) -> "Optional[Fit]":
        """From the JSON's object."""
        return None if raw is None else Fit(raw["gpu"], raw["capacity"], raw["verdict"], raw.get("capacity_high"))


VERDICTS = {"fits": "fits", "too-close": "is too close to tell", "does-not-fit": "does not fit"}
