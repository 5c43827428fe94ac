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
class Death:
    """Where a run that does not fit runs out of memory."""

    step: Optional[int]
    phase: str
    module: Optional[str]
    op: Optional[str]
    source: Optional[str]
    micro: Optional[int] = None

    @staticmethod
    def of(raw: Optional[Dict[str, Any]]) -> "Optional[Death]":
        """From the JSON's object; None if nothing runs out of memory."""
        if raw is None:
            return None
        return Death(raw["step"], raw["phase"], raw["module"], raw["op"], raw["source"], raw.get("micro"))

    def __str__(self) -> str:
        if self.step is None:
            return "while the model and its inputs are moved to the GPU"
        place = f"step {self.step + 1}, {self.phase}"
        operator = self.op.split(".")[1] if self.op and "." in self.op else self.op
        at = " of ".join(part for part in (operator, self.module) if part)
        return f"in {at} ({place})" if at else f"in {place}"


@dataclass(frozen=True)
class Fit:
    """Whether it fits: ``verdict`` is ``fits``, ``too-close`` or ``does-not-fit``."""

    gpu: Optional[str]
    capacity: Optional[int]
    verdict: str
    capacity_high: Optional[int] = None
    """The upper bound of the capacity, if the catalogue has only bounds; ``capacity`` is then the lower one."""
    needed: Optional[int] = None
    """What the training takes of the capacity, or would take if it runs out of memory."""
    short: Optional[int] = None
    """How much is missing; None if it does not run out of memory as expected."""
    dies_in: Optional[Death] = None
    """Where it runs out of memory."""
    margin: Optional[int] = None
    """Bytes of the capacity that stay free; None if it does not fit for certain."""

    @property
    def room(self) -> str:
        """The capacity as text."""
        if self.capacity is None:
            return ""
        if self.capacity_high is None or self.capacity_high == self.capacity:
            return human(self.capacity)
        return f"{human(self.capacity)} to {human(self.capacity_high)}"

    @property
    def misfit(self) -> str:
        """What is missing and where it dies, as text; empty if it does not run out of memory as expected."""
        if self.short is None or self.needed is None:
            return ""
        dies = f", dies {self.dies_in}" if self.dies_in is not None else ""
        return f"needs {human(self.needed)}, {human(self.short)} short{dies}"

    @staticmethod
    def of(raw: Optional[Dict[str, Any]]) -> "Optional[Fit]":
        """From the JSON's object."""
        if raw is None:
            return None
        return Fit(
            raw["gpu"], raw["capacity"], raw["verdict"], raw.get("capacity_high"), raw.get("needed"), raw.get("short"),
            Death.of(raw.get("dies_in")), raw.get("margin"),
        )


VERDICTS = {"fits": "fits", "too-close": "is too close to tell", "does-not-fit": "does not fit"}
