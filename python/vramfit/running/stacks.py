"""The call stacks of a script's calls: its own lines, and where PyTorch's modules and optimizers come between them."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import Dict, List, Optional, Tuple
from zlib import crc32

import torch

from ..sources import BOUNDARY, MODEL, TORCH, Sources, shown_path

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_MODULE = _TORCH + os.path.join("nn", "modules", "module.py")
_OPTIMIZER = tuple(_TORCH + part for part in (
    "optim" + os.sep, os.path.join("amp", "grad_scaler.py"), os.path.join("nn", "utils", "clip_grad.py"),
))
# What stands for DistributedDataParallel.
_REPLICA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replicas.py")
OPERATOR, IN_MODULE, IN_OPTIMIZER, IN_REPLICA = "operator", "module", "optimizer", "replica"


class Stacks(Sources):
    """Numbers the lines of a script, each together with the lines that called it."""

    def __init__(self, boundary: CodeType) -> None:
        super().__init__(boundary)
        # For each row: the row of the caller, whether it called a module, and what the line itself calls.
        self.callers: List[Tuple[Optional[int], bool, str]] = []
        self._stacks: Dict[Tuple[CodeType, int, Optional[int], bool, str], int] = {}
        self._marks: Dict[CodeType, str] = {}
        # The checksums of the script's own files, by name, taken where their first line is seen.
        self.checksums: Dict[str, int] = {}

    def here(self) -> int:
        frame: Optional[FrameType] = sys._getframe(1)
        kinds, marks = self._kinds, self._marks
        # The script's lines, the innermost first, each with what is called between it and the line inside it.
        lines: List[Tuple[FrameType, str]] = []
        between = OPERATOR
        inner: Optional[FrameType] = None
        while frame is not None:
            code = frame.f_code
            kind = kinds.get(code)
            if kind is None:
                kind = self._kind(code)
            if kind == MODEL:
                lines.append((frame, between))
                between = OPERATOR
            elif kind == TORCH:
                mark = marks.get(code)
                if mark is None:
                    mark = marks[code] = _mark(code)
                if mark != OPERATOR and between != IN_REPLICA:
                    between = mark
                if inner is None:
                    inner = frame
            elif kind == BOUNDARY:
                break
            elif code.co_filename == _REPLICA and code.co_name in ("_make_buckets", "_broadcast", "_verify"):
                between = IN_REPLICA
            frame = frame.f_back
        if not lines:
            return -1 if inner is None else self._row(inner, None, False, OPERATOR)
        row: Optional[int] = None
        is_in_module = False
        for at in range(len(lines) - 1, -1, -1):
            line, calls = lines[at]
            row = self._row(line, row, is_in_module, calls if at == 0 else OPERATOR)
            is_in_module = calls == IN_MODULE
        assert row is not None
        return row

    def _row(self, frame: FrameType, caller: Optional[int], is_in_module: bool, calls: str) -> int:
        key = (frame.f_code, frame.f_lineno, caller, is_in_module, calls)
        number = self._stacks.get(key)
        if number is None:
            number = self._stacks[key] = len(self.rows)
            name = shown_path(key[0].co_filename)
            self.rows.append((name, key[1], key[0].co_name))
            self._files.append(key[0].co_filename)
            self._note_checksum(name, key[0].co_filename)
            self.callers.append((caller, is_in_module, calls))
        return number

    def _note_checksum(self, name: str, filename: str) -> None:
        if name in self.checksums or name.startswith("site-packages/") or not name.endswith(".py"):
            return
        try:
            with open(filename, "rb") as file:
                self.checksums[name] = crc32(file.read())
        except OSError:
            # The file is gone: nothing can be compared with it.
            pass


def _mark(code: CodeType) -> str:
    name = os.path.abspath(code.co_filename)
    if name == _MODULE and code.co_name in ("_call_impl", "_wrapped_call_impl"):
        return IN_MODULE
    return IN_OPTIMIZER if name.startswith(_OPTIMIZER) and code.co_name != "__init__" else OPERATOR
