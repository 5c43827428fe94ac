"""Formats bytes as the binary does."""

from __future__ import annotations

_UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def human(size: int) -> str:
    """Three digits and a unit."""
    for name, unit in _UNITS:
        if abs(size) >= unit:
            value = size / unit
            places = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
            return f"{value:.{places}f} {name}"
    return f"{size} B"
