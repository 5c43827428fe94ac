"""Fields that several answers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional


@dataclass(frozen=True)
class Range:
    """Between which bytes the truth lies."""

    low: int
    high: int


@dataclass(frozen=True)
class Fit:
    """Whether it fits: ``verdict`` is ``fits``, ``too-close`` or ``does-not-fit``."""

    gpu: Optional[str]
    capacity: Optional[int]
    verdict: str

    @staticmethod
    def of(raw: Optional[Dict[str, Any]]) -> "Optional[Fit]":
        """From the JSON's object."""
        return None if raw is None else Fit(raw["gpu"], raw["capacity"], raw["verdict"])


VERDICTS = {"fits": "fits", "too-close": "too close to say", "does-not-fit": "does not fit"}
