"""Exceptions. Each message says what was found, what was needed, and gives a hint."""

from __future__ import annotations


class VramfitError(RuntimeError):
    """Base class. The message says what was found and needed, then what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class CaptureError(VramfitError):
    """A model could not be captured. The message names the line of the model, and what to do about it."""


class BinaryNotFound(VramfitError):
    """The ``vramfit`` binary was not found."""


class SettingError(VramfitError, TypeError):
    """A setting does not exist, or has an invalid value."""


class PlanError(VramfitError):
    """A plan cannot be applied to this model or optimizer."""
