"""Whether a script's steps repeat themselves."""

from __future__ import annotations

import hashlib
from typing import Any, List

from .recorder import ScriptRecorder

# So many equal periods in a row count as a steady state; a period has one or a few steps, as where two optimizers take turns.
_PERIODS = 3
_LONGEST = 4


class Repetition:
    """Compares steps: their calls with the kinds of their results, and how many tensors live after them."""

    def __init__(self, recorder: ScriptRecorder) -> None:
        self._recorder = recorder
        self._start = 0
        self._row = 0
        self._steps: List[str] = []

    @property
    def count(self) -> int:
        """How many steps have ended."""
        return len(self._steps)

    def ended(self) -> None:
        """A step has ended."""
        recorder = self._recorder
        digest = hashlib.sha1()
        for step in recorder.steps[self._start:]:
            if step[0] == "call":
                digest.update(b"%d %d|" % (step[1], len(step[3])))
        for row in recorder.rows[self._row:]:
            kind = row[0]
            digest.update(f"{kind.dtype}{kind.shape}{row[3]};".encode())
        live: Any = len(recorder.live)
        digest.update(str(live).encode())
        self._steps.append(digest.hexdigest())
        self._start, self._row = len(recorder.steps), len(recorder.rows)

    def repeats(self) -> bool:
        """Whether the last steps are the same period again and again."""
        steps = self._steps
        for period in range(1, _LONGEST + 1):
            count = period * _PERIODS
            if len(steps) > count and all(steps[-at] == steps[-at - period] for at in range(1, count - period + 1)):
                return True
        return False
