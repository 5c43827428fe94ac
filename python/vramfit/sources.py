"""Which line of the model a call comes from, without paths of this machine."""

from __future__ import annotations

import linecache
import os
import sys
from types import CodeType, FrameType
from typing import Dict, List, Optional, Tuple

import torch

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

# Frames between a composite and its inner calls, which belong to neither.
_SKIPPED = (_TORCH + "_ops.py",)

MODEL, TORCH, OURS, BOUNDARY = range(4)


def shown_path(filename: str) -> str:
    """A path without the machine's folders: from ``site-packages`` on, or relative to the working directory."""
    name = filename.replace(os.sep, "/")
    for folder in ("site-packages/", "dist-packages/"):
        at = name.rfind("/" + folder)
        if at >= 0:
            return "site-packages/" + name[at + 1 + len(folder):]
    here = os.getcwd().replace(os.sep, "/").rstrip("/") + "/"
    if name.startswith(here):
        return name[len(here):]
    return name.rsplit("/", 1)[-1]


class Sources:
    """Finds and numbers the source lines of calls."""

    def __init__(self, boundary: CodeType) -> None:
        self.rows: List[Tuple[str, int, str]] = []
        self._numbers: Dict[Tuple[CodeType, int], int] = {}
        self._rows: Dict[Tuple[str, int, str], int] = {}
        self._kinds: Dict[CodeType, int] = {boundary: BOUNDARY}
        self._files: List[str] = []

    def _kind(self, code: CodeType) -> int:
        name = code.co_filename
        if name.startswith("<"):
            kind = OURS if name.startswith(("<frozen", "<string")) else MODEL
        else:
            name = os.path.abspath(name)
            ours = name.startswith(_HERE) or name in _SKIPPED
            kind = OURS if ours else TORCH if name.startswith(_TORCH) else MODEL
        self._kinds[code] = kind
        return kind

    def _number(self, frame: FrameType) -> int:
        key = (frame.f_code, frame.f_lineno)
        number = self._numbers.get(key)
        if number is None:
            row = (shown_path(key[0].co_filename), key[1], key[0].co_name)
            number = self._rows.setdefault(row, len(self.rows))
            if number == len(self.rows):
                self.rows.append(row)
                self._files.append(key[0].co_filename)
            self._numbers[key] = number
        return number

    def here(self) -> int:
        """The index of the model's current line; a line of torch if the model has none; -1 if there is neither."""
        frame: Optional[FrameType] = sys._getframe(1)
        kinds = self._kinds
        inner: Optional[FrameType] = None
        while frame is not None:
            kind = kinds.get(frame.f_code)
            if kind is None:
                kind = self._kind(frame.f_code)
            if kind == MODEL:
                return self._number(frame)
            if kind == BOUNDARY:
                break
            if kind == TORCH and inner is None:
                inner = frame
            frame = frame.f_back
        return -1 if inner is None else self._number(inner)

    def asserts(self, number: int) -> bool:
        """Whether the line only refuses bad values."""
        if number < 0:
            return False
        line = linecache.getline(self._files[number], self.rows[number][1]).strip()
        return line.startswith(("assert ", "assert(", "torch._assert("))

    def text(self, number: int) -> str:
        """A line as text: ``file:line in function``."""
        if number < 0:
            return "an unknown line"
        name, line, function = self.rows[number]
        return f"{name}:{line} in {function}"
