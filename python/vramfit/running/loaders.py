"""Data loaders. What their workers do is done in this process and not recorded, since no worker touches the GPU.

A loader without workers is watched for its first batch: if that made no tensor on the GPU, the next ones are not recorded either.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _DatasetKind, _SingleProcessDataLoaderIter

from ..devices import is_on_gpu
from ..patches import Patches
from ..regions import tensors_in
from ..tensors import HOST, META
from .host_memory import PinnedBatches
from .random_numbers import WorkerNumbers
from .recorder import ScriptRecorder

# The places of DataLoader's arguments after the data set.
_WORKERS, _PINS = 4, 6
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


class _WithoutValues(TorchDispatchMode):
    """Has operators take tensors of the host that have values together with large ones that have none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not tree_any(_has_no_values, (args, kwargs)):
            return func(*args, **kwargs)
        if func is torch.ops.aten._local_scalar_dense.default:
            return torch.zeros((), dtype=args[0].dtype, device="cpu").item()
        return func(*tree_map(_without_values, args), **tree_map(_without_values, kwargs))


def _has_no_values(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_meta


def _without_values(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(META)
    return META if isinstance(value, torch.device) and value.type == "cpu" else value


def _length(loader: Any) -> int:
    """How many batches there are; a stream does not say."""
    try:
        return len(loader)
    except TypeError:
        return sys.maxsize


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has loaders run in this process."""
    original: Callable[..., Any] = DataLoader.__init__
    original_next: Callable[..., Any] = _SingleProcessDataLoaderIter._next_data

    # Lightning asks for the names of the arguments.
    @functools.wraps(original)
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
        ahead = workers * (kwargs.get("prefetch_factor") or 2)
        pins = bool(positional[_PINS] if len(positional) > _PINS else named.get("pin_memory"))
        original(loader, dataset, *positional, **named)
        loader._vramfit_ahead = ahead
        loader.pin_memory = pins
        loader._vramfit_on_host = bool(workers)
        loader._vramfit_workers = workers

    def fetch(iterator: Any) -> Any:
        """A batch, with the random numbers of the worker that would make it."""
        numbers = iterator._vramfit_numbers
        if numbers is None:
            return original_next(iterator)
        # The sampler belongs to the loader's own process.
        index = iterator._next_index()
        with numbers.next_batch():
            return iterator._dataset_fetcher.fetch(index)

    def next_data(iterator: Any) -> Any:
        batch = next_batch(iterator)
        if iterator._vramfit_pinned is not None:
            iterator._vramfit_batches += 1
            iterator._vramfit_pinned.next(batch, _length(iterator._vramfit_loader) - iterator._vramfit_batches)
        return batch

    def next_batch(iterator: Any) -> Any:
        loader = iterator._vramfit_loader
        if not getattr(loader, "_vramfit_on_host", False):
            before = len(recorder.rows)
            batch = original_next(iterator)
            loader._vramfit_on_host = all(row[3] & HOST for row in recorder.rows[before:]) and not is_on_gpu(batch)
            return batch
        recorder.random_numbers.settle()
        with torch._C.DisableTorchFunction(), recorder.paused(), _WithoutValues():
            batch = fetch(iterator)
            for tensor in tensors_in(batch, []):
                if id(tensor) not in recorder.infos and tensor.is_meta:
                    # Made from a large tensor of the host, whose values are not computed.
                    info = recorder.adopt(tensor, recorder.session.kinds.of(tensor), None, 0, True, leaf=True)
                    recorder.constants.append(info.index)
        return batch

    original_begin: Callable[..., Any] = _SingleProcessDataLoaderIter.__init__

    def begin(iterator: Any, loader: Any) -> None:
        iterator._vramfit_loader, iterator._vramfit_batches = loader, 0
        pins, loader.pin_memory = loader.pin_memory, False
        original_begin(iterator, loader)
        loader.pin_memory = pins
        iterator._vramfit_pinned = PinnedBatches(recorder.pinned, getattr(loader, "_vramfit_ahead", 0)) if pins else None
        # Workers that make the items of a stream have a copy of it each, which is not followed.
        count = 0 if loader._dataset_kind == _DatasetKind.Iterable else getattr(loader, "_vramfit_workers", 0)
        numbers = WorkerNumbers(count, iterator._base_seed, loader.worker_init_fn, loader.dataset) if count else None
        iterator._vramfit_numbers = numbers
        if numbers is not None:
            fetcher = iterator._dataset_fetcher
            fetcher.collate_fn = numbers.collating(fetcher.collate_fn)

    patches.set(DataLoader, "__init__", init)
    patches.set(_SingleProcessDataLoaderIter, "__init__", begin)
    patches.set(_SingleProcessDataLoaderIter, "_next_data", next_data)
