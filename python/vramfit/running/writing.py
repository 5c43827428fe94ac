"""Writes the recording of a script."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..align import Alignment
from ..file_format import Document
from ..recording import Recording
from ..symbols import Expressions, Plan
from .script import RecordedScript
from .stacks import Stacks

FORMAT = "vramfit-recording"


def contents(script: RecordedScript, name: str) -> Dict[str, Any]:
    """The file's contents."""
    from .. import __version__

    recorder, session = script.recorder, script.session
    held = sorted(recorder.live)
    recording = Recording(recorder, None, None, held)
    program = Alignment(session, Expressions(Plan({}, [], 0))).merge([recording])
    document = Document({})
    document.add("as-built", "train", None, program, list(recorder.causes))
    document.head.update({
        "producer": {"vramfit": __version__, "torch": torch.__version__.split("+")[0]},
        "model": name, "symbols": [], "notes": _notes(script), "modules": [list(row) for row in script.modules.rows],
        "operators": [[operator, arguments] for operator, arguments in session.rows], "sources": [list(row) for row in session.sources.rows],
        "parameters": [], "buffers": [], "move_order": [], "inputs": [], "targets": [],
        "script": {
            "parameters": script.modules.parameters(), "steps": script.steps, "cudnn_benchmark": script.recorder.is_cudnn_benchmarked,
            "grad_scaler": script.recorder.has_grad_scaler, "assumed_sizes": script.recorder.has_assumed_sizes, "callers": _callers(script), "files": _files(script),
        },
    })
    return {**document.contents(), "format": FORMAT}


def _callers(script: RecordedScript) -> List[Any]:
    sources = script.session.sources
    assert isinstance(sources, Stacks)
    return [list(row) for row in sources.callers]


def _files(script: RecordedScript) -> List[Any]:
    sources = script.session.sources
    assert isinstance(sources, Stacks)
    return [[name, checksum] for name, checksum in sources.checksums.items()]


def _notes(script: RecordedScript) -> List[str]:
    notes = list(script.session.notes)
    reads = script.recorder.stand_ins
    if reads:
        lines = sorted({text.split(":", 2)[0] + ":" + text.split(":", 2)[1].split(" ")[0] for text in reads})
        shown = ", ".join(lines[:5]) + (f" and {len(lines) - 5} more" if len(lines) > 5 else "")
        notes.append(f"values on the GPU are not computed: stand-ins were read at {shown}")
    return notes + script.recorder.memory_reads.notes()
