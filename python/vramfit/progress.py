"""Progress of long work, on stderr. Short work prints nothing."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any, Optional, Tuple, Type

# Seconds before the first line and between lines. On a terminal the line is overwritten; a log keeps every line.
_TERMINAL = (1.0, 1.0)
_LOG = (5.0, 15.0)


class Progress:
    """Prints from its own thread, because a long import does not return in between."""

    def __init__(self, stream: Any = None, waits: Optional[Tuple[float, float]] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._first, self._next = waits or (_TERMINAL if self._is_terminal else _LOG)
        self._begun = time.monotonic()
        self._stage = ""
        self._has_line = False
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, name="vramfit-progress", daemon=True)

    def at(self, stage: str) -> None:
        """Sets the current stage."""
        self._stage = stage

    def _tell(self) -> None:
        wait = self._first
        while not self._ended.wait(wait):
            wait = self._next
            self._write(f"{self._stage} ({time.monotonic() - self._begun:.0f} s)")

    def _write(self, text: str) -> None:
        try:
            if self._is_terminal:
                self._has_line = True
                self._stream.write(f"\r\x1b[K{text[:78]}")
            else:
                self._stream.write(f"{text}\n")
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads stderr any more; the work goes on.
            self._ended.set()

    def __enter__(self) -> Progress:
        self._teller.start()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], problem: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self._ended.set()
        self._teller.join(1.0)
        if self._has_line:
            try:
                self._stream.write("\r\x1b[K")
                self._stream.flush()
            except (OSError, ValueError):
                pass
