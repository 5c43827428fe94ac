"""The exception that a model which cannot be captured ends in."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """A model could not be captured: says which line of the model stands in the way, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\n\nhint: {hint}" if hint else message)
        self.message = message
        self.hint = hint
