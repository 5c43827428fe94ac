"""What can go wrong, each with what was found, what was needed, and a hint."""

from __future__ import annotations


class VramfitError(RuntimeError):
    """Anything that vramfit could not do: says what was found and needed, then what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class CaptureError(VramfitError):
    """A model could not be captured: says which line of the model stands in the way, and what to do about it."""


class BinaryNotFound(VramfitError):
    """The ``vramfit`` binary is nowhere to be found."""


class SettingError(VramfitError, TypeError):
    """A setting that does not exist, or a value that it does not take."""


class PlanError(VramfitError):
    """A plan cannot be applied to this model or optimizer."""
