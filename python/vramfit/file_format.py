"""The capture file: gzip-compressed JSON, described in docs/capture-format.md."""

from __future__ import annotations

import gzip
import io
import json
import os
import tempfile
from typing import Any, Dict, List, Optional

from .align import Program
from .errors import VramfitError

FORMAT = "vramfit-capture"
VERSION = 1


class Sections:
    """Parts of programs. Each is stored once, even if several variants share it."""

    def __init__(self) -> None:
        self.rows: List[Any] = []
        self._numbers: Dict[str, int] = {}

    def add(self, value: Any) -> int:
        """Stores the value and returns its index."""
        text = dumps(value)
        number = self._numbers.setdefault(text, len(self.rows))
        if number == len(self.rows):
            self.rows.append(value)
        return number


def dumps(value: Any) -> str:
    """JSON without spaces; keys in insertion order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=_refused)


def _refused(value: Any) -> Any:
    raise VramfitError(
        f"found a call with a {type(value).__name__} that is no plain argument, needed numbers, text and recorded tensors",
        "nested tensors and what torch.jit or torch.export make are not followed",
    )


class Document:
    """The contents of a capture file."""

    def __init__(self, head: Dict[str, Any]) -> None:
        self.head = head
        self.types, self.tensors, self.steps = Sections(), Sections(), Sections()
        self.variants: List[Dict[str, Any]] = []

    def add(self, precision: str, mode: str, autocast: Optional[str], program: Program, causes: List[str], assumed: Optional[str] = None) -> Dict[str, Any]:
        """Adds one precision and mode. ``causes`` says why another run of it may differ, ``assumed`` which bound it records."""
        variant = {
            "precision": precision, "mode": mode, "grad": mode != "eval", "training": mode == "train", "autocast": autocast,
            "types": self.types.add(program.types), "tensors": self.tensors.add(program.tensors), "steps": self.steps.add(program.steps),
            "constants": program.constants, "outputs": program.outputs, "loss": program.loss, "held": program.held,
        }
        if assumed:
            variant["assumed"] = assumed
        if causes:
            variant["causes"] = causes
        if program.backwards:
            variant["functions"] = program.backwards
        self.variants.append(variant)
        return variant

    def repeat(self, precision: str, variant: Dict[str, Any]) -> None:
        """Adds a second name for a recorded precision."""
        self.variants.append(dict(variant, precision=precision))

    def contents(self) -> Dict[str, Any]:
        """The whole file as one object."""
        return {
            "format": FORMAT, "version": VERSION, **self.head,
            "variants": self.variants, "types": self.types.rows, "tensors": self.tensors.rows, "steps": self.steps.rows,
        }


def write(path: Any, contents: Dict[str, Any]) -> int:
    """Writes the file atomically and returns its size."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=packed, mtime=0) as stream:
        stream.write(dumps(contents).encode("ascii"))
    data = packed.getvalue()
    path = os.fspath(path)
    handle, temporary = tempfile.mkstemp(prefix=".vramfit-", dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    return len(data)
