"""Data loaders: their workers' work is done in this process, and is not recorded, since no worker touches the GPU."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from ..patches import Patches
from .recorder import ScriptRecorder

# The places of DataLoader's arguments after the data set.
_WORKERS, _PINS = 4, 6
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout", "worker_init_fn")


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has loaders run in this process."""
    original: Callable[..., Any] = DataLoader.__init__
    original_next: Callable[..., Any] = _SingleProcessDataLoaderIter._next_data

    def init(loader: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:
        named, positional = dict(kwargs), list(args)
        workers = positional[_WORKERS] if len(positional) > _WORKERS else named.get("num_workers", 0)
        if workers:
            recorder.session.note("data loaders run in this process instead of in workers")
            for name in _OF_WORKERS:
                named.pop(name, None)
            if len(positional) > _WORKERS:
                positional[_WORKERS] = 0
            else:
                named["num_workers"] = 0
        if len(positional) > _PINS:
            positional[_PINS] = False
        else:
            named["pin_memory"] = False
        original(loader, dataset, *positional, **named)
        loader._vramfit_workers = bool(workers)

    def next_data(iterator: Any) -> Any:
        if not getattr(iterator._vramfit_loader, "_vramfit_workers", False):
            return original_next(iterator)
        with torch._C.DisableTorchFunction(), recorder.paused():
            return original_next(iterator)

    original_begin: Callable[..., Any] = _SingleProcessDataLoaderIter.__init__

    def begin(iterator: Any, loader: Any) -> None:
        iterator._vramfit_loader = loader
        original_begin(iterator, loader)

    patches.set(DataLoader, "__init__", init)
    patches.set(_SingleProcessDataLoaderIter, "__init__", begin)
    patches.set(_SingleProcessDataLoaderIter, "_next_data", next_data)
