"""A question to the binary, kept so that the answer can be printed again as text or as a page."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any, Iterator, Optional, Tuple

from .. import binary
from ..errors import VramfitError
from ..progress import Progress


@dataclass(frozen=True)
class Question:
    """A command of the binary, its flags, and the model: a name or path, or the bytes of a capture."""

    command: str
    flags: Tuple[str, ...]
    model: str
    capture: Optional[bytes] = field(default=None, repr=False)

    @contextlib.contextmanager
    def _file(self) -> Iterator[str]:
        """The model argument for the binary: a name, or a temporary file that exists inside the block."""
        if self.capture is None:
            yield self.model
            return
        with tempfile.TemporaryDirectory(prefix="vramfit-") as folder:
            path = os.path.join(folder, f"{self.model}.vramfit")
            with open(path, "wb") as stream:
                stream.write(self.capture)
            yield path

    def ask(self, *more: str) -> str:
        """Runs the binary, with additional flags if given, and returns its output."""
        with self._file() as model:
            try:
                with Progress() as progress:
                    progress.at(self.command)
                    _, text = binary.run([self.command, *self.flags, *more, "--", model], lambda said: progress.at(f"{self.command}: {said}"))
            except VramfitError as problem:
                # The temporary file no longer exists when the text is read, so its name is replaced.
                raise type(problem)(problem.message.replace(model, self.model), problem.hint) from None
        return text if self.capture is None else text.replace(model, self.model)

    def text(self) -> str:
        """The answer as text, without colours."""
        return self.ask("--no-color")

    def html(self, path: Any) -> str:
        """Writes the HTML page and returns its path."""
        place: str = os.fspath(path)
        self.ask("--html", place)
        return place
