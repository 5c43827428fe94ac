"""``vramfit.watch``: records the memory of a real training loop on a GPU and compares it with the prediction."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from typing import Any, List, Optional, TextIO

from .answers.estimate import Estimate
from .answers.explanation import Explanation
from .answers.html import note_list, page, table
from .answers.units import human
from .errors import VramfitError


class watch:
    """Records the memory of a training loop on a GPU, and explains it afterwards.

    ::

        with vramfit.watch(expected=estimate) as watched:
            for inputs, targets in batches:
                ...

    At the end of the block, the recording is explained as by ``vramfit explain``, compared with ``expected``, and printed to
    ``file`` (standard error) unless ``quiet``. This happens after an OutOfMemoryError too, which is then raised as usual.
    ``path`` keeps the snapshot, ``html`` writes the page. ``max_entries`` limits the number of recorded events; the last ones are
    kept. CUDA's peak statistics are reset at the beginning. Without a GPU nothing is recorded: a warning says so, and the block
    runs normally.
    """

    def __init__(
        self, expected: Optional[Estimate] = None, *, path: Optional[Any] = None, html: Optional[Any] = None, device: Optional[int] = None,
        max_entries: int = 1_000_000, quiet: bool = False, file: Optional[TextIO] = None,
    ) -> None:
        if expected is not None and not isinstance(expected, Estimate):
            raise VramfitError(f"expected: found {type(expected).__name__}, needed what vramfit.estimate returns")
        self._watched = Watched(expected)
        self._path = None if path is None else os.fspath(path)
        self._html = html
        self._device = device
        self._max_entries = max_entries
        self._quiet = quiet
        self._file = file

    def __enter__(self) -> "Watched":
        import torch

        if not torch.cuda.is_available():
            warnings.warn("vramfit.watch: there is no CUDA GPU here, so nothing is recorded", RuntimeWarning, stacklevel=2)
            return self._watched
        if self._device is None:
            self._device = torch.cuda.current_device()
        torch.cuda.reset_peak_memory_stats(self._device)
        torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=self._max_entries)
        self._watched.recorded = True
        return self._watched

    def __exit__(self, kind: Any, problem: Any, trace: Any) -> None:
        if not self._watched.recorded:
            return
        import torch

        watched = self._watched
        memory = torch.cuda.memory
        watched.out_of_memory = problem if isinstance(problem, torch.cuda.OutOfMemoryError) else None
        with tempfile.TemporaryDirectory(prefix="vramfit-") as folder:
            path = self._path or os.path.join(folder, "snapshot.pickle")
            try:
                watched.peak_allocated = torch.cuda.max_memory_allocated(self._device)
                watched.peak_reserved = torch.cuda.max_memory_reserved(self._device)
                memory._dump_snapshot(path)
            finally:
                memory._record_memory_history(None)
            watched.path = self._path
            try:
                watched.explanation = Explanation.of_snapshot(path, vram=self._cap(), html=self._html, device=self._device)
            except VramfitError as failure:
                # A failure to explain must not hide the loop's own error or success.
                watched.problem = str(failure)
        if not self._quiet:
            print(watched, file=self._file or sys.stderr)

    def _cap(self) -> Optional[int]:
        """The memory limit that the process set itself, which a snapshot does not contain."""
        import torch

        fraction = torch.cuda.get_per_process_memory_fraction(self._device)
        if fraction >= 1:
            return None
        return int(fraction * torch.cuda.get_device_properties(self._device).total_memory)


class Watched:
    """The recording, available when the ``with`` block of ``watch`` has ended. Sizes are bytes."""

    def __init__(self, expected: Optional[Estimate] = None) -> None:
        self.expected = expected
        self.recorded = False
        self.peak_allocated: Optional[int] = None
        self.peak_reserved: Optional[int] = None
        self.out_of_memory: Optional[BaseException] = None
        self.explanation: Optional[Explanation] = None
        self.path: Optional[str] = None
        self.problem: Optional[str] = None

    @property
    def difference(self) -> Optional[int]:
        """The measured peak minus the expected one, in bytes allocated; None if either is unknown."""
        if self.expected is None or self.peak_allocated is None:
            return None
        return self.peak_allocated - self.expected.peak_allocated

    def _lines(self) -> List[str]:
        if not self.recorded:
            return ["nothing recorded: there is no CUDA GPU here"]
        if self.peak_allocated is None or self.peak_reserved is None:
            return ["recording"]
        lines = [f"at most {human(self.peak_allocated)} allocated, {human(self.peak_reserved)} reserved"]
        if self.out_of_memory is not None:
            lines.append("it ended out of memory")
        if self.expected is not None and self.difference is not None:
            lines.append(
                f"expected {human(self.expected.peak_allocated)} allocated, {human(self.expected.peak_reserved)} reserved: "
                f"{'the same bytes' if self.difference == 0 else f'{self.difference:+,} bytes allocated'}, "
                f"{self.peak_reserved - self.expected.peak_reserved:+,} reserved"
            )
        if self.problem:
            lines.append(f"the recording could not be explained: {self.problem}")
        return lines

    def __repr__(self) -> str:
        text = "\n".join(f"vramfit: {line}" for line in self._lines())
        return text if self.explanation is None else f"{text}\n\n{self.explanation.text}"

    def _repr_html_(self) -> str:
        lines = self._lines()
        rows = [] if self.expected is None or self.peak_allocated is None or self.peak_reserved is None else [
            ("allocated", human(self.peak_allocated), human(self.expected.peak_allocated)),
            ("reserved", human(self.peak_reserved), human(self.expected.peak_reserved)),
        ]
        body = table(rows, ("", "measured", "expected")) if rows else ""
        own = page(lines[0], "does-not-fit" if self.out_of_memory else None, body, note_list(lines[1:]))
        return own + (self.explanation._repr_html_() if self.explanation is not None else "")
