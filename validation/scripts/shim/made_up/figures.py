"""Writes the allocator's own figures when the process ends: `VRAMFIT_FIGURES` names the file, `VRAMFIT_TRACE` one for the history."""

import atexit
import json
import os


def begin(torch):
    """Called when torch has been imported; child processes of the script do not report."""
    out, trace = os.environ.pop("VRAMFIT_FIGURES"), os.environ.pop("VRAMFIT_TRACE", None)
    owner = os.getpid()
    if trace and torch.cuda.is_available():
        torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=400_000)
    atexit.register(_end, torch, out, trace, owner)


def _end(torch, out, trace, owner):
    if os.getpid() != owner:
        return
    used = torch.cuda.is_initialized()
    row = {
        "cuda": used,
        "peak_allocated": torch.cuda.max_memory_allocated() if used else 0,
        "peak_reserved": torch.cuda.max_memory_reserved() if used else 0,
        "retries": torch.cuda.memory_stats().get("num_alloc_retries", 0) if used else 0,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name() if used else None,
    }
    with open(out, "w") as file:
        json.dump(row, file)
    if trace and used:
        _write_trace(torch, trace)


def _write_trace(torch, path):
    import lzma
    import pickle

    snapshot = torch.cuda.memory._snapshot()
    with lzma.open(path, "wb", preset=1) as file:
        pickle.dump(snapshot, file)
