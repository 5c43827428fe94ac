"""vramfit's Python side: captures a live ``torch.nn.Module`` for the ``vramfit`` binary, without weights and without a GPU."""

from __future__ import annotations

__version__ = "0.1.0"

from .capture import Capture, capture
from .errors import CaptureError

__all__ = ["Capture", "CaptureError", "capture"]
