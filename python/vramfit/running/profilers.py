"""Profilers and the history of allocations: they record what happens on a GPU, and there is none."""

from __future__ import annotations

from typing import Any, List

import torch

from ..patches import Patches
from .recorder import ScriptRecorder


class _NoEvents(List[Any]):
    """What a profiler saw."""

    def table(self, *_: Any, **__: Any) -> str:
        return ""

    def total_average(self) -> None:
        return None


class _NoProfile:
    """Stands for a profiler. It is a context and a decorator, and has the methods that scripts call."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.step_num = 0

    def __enter__(self) -> _NoProfile:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function

    def step(self) -> None:
        self.step_num += 1

    def events(self, *_: Any, **__: Any) -> _NoEvents:
        return _NoEvents()

    def nothing(self, *_: Any, **__: Any) -> None:
        return None

    key_averages = events
    start = stop = prepare_trace = start_trace = stop_trace = nothing
    export_chrome_trace = export_stacks = export_memory_timeline = add_metadata = add_metadata_json = toggle_collection_dynamic = nothing


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Leaves out profilers and the history of allocations."""

    class Profile(_NoProfile):
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()
            recorder.session.note(f"{recorder.where()}: nothing is profiled")

    for owner, name in (
        (torch.profiler, "profile"), (torch.profiler.profiler, "profile"), (torch.autograd.profiler, "profile"),
        (torch.autograd.profiler, "emit_nvtx"),
    ):
        patches.set(owner, name, Profile)

    def without_history(*_: Any, **__: Any) -> None:
        recorder.session.note(f"{recorder.where()}: the history of allocations is not recorded; --snapshot FILE writes the simulated one")

    for name in ("_record_memory_history", "_dump_snapshot"):
        patches.set(torch.cuda.memory, name, without_history)
