"""Distributed training: the first of ``--world`` ranks is run, and nobody answers for the others. Collectives change nothing."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..errors import VramfitError
from ..patches import Patches
from .recorder import ScriptRecorder
from .replicas import replica_class

_CAUSE = "ranks: DistributedDataParallel's buckets are simulated in the order in which modules are called, and no NCCL was measured"
# Collectives that allocate nothing: what a rank would receive is there already.
_COLLECTIVES: Tuple[str, ...] = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "_all_gather_base", "gather", "scatter", "reduce_scatter",
    "reduce_scatter_tensor", "_reduce_scatter_base", "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv", "barrier",
    "monitored_barrier", "broadcast_object_list",
)
# What spreads a model in a way that is not followed, by module. A device mesh makes process groups of its own.
_REFUSED: Dict[str, Tuple[str, ...]] = {
    "torch.distributed": ("init_device_mesh",),
    "torch.distributed.device_mesh": ("init_device_mesh",),
    "torch.distributed.fsdp": ("fully_shard", "FullyShardedDataParallel"),
    "torch.distributed.optim": ("ZeroRedundancyOptimizer",),
    "torch.distributed.tensor.parallel": ("parallelize_module",),
}


class _Work:
    """Stands for a collective that is under way."""

    def wait(self, *_: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


class Environment:
    """The variables that torchrun sets, until the script has ended."""

    def __init__(self, world: Optional[int]) -> None:
        values = {"RANK": 0, "LOCAL_RANK": 0, "GROUP_RANK": 0, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
        self._values = {} if world is None else {name: str(value) for name, value in values.items()}
        self._before: Dict[str, Optional[str]] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._values}
        os.environ.update(self._values)

    def __exit__(self, *_: Any) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def install(patches: Patches, recorder: ScriptRecorder, world: Optional[int]) -> None:
    """Answers as the process group of ``world`` ranks would; without a number, refuses process groups."""
    if not torch.distributed.is_available():
        return

    if world is None:
        for name in ("init_process_group", "init_device_mesh"):
            patches.set(torch.distributed, name, _without_a_number(recorder, name))
        patches.set(torch.distributed.device_mesh, "init_device_mesh", _without_a_number(recorder, "init_device_mesh"))
        return
    _group(patches, recorder, world)
    _refusals(patches, recorder)
    replica = replica_class(recorder, world)
    patches.set(torch.nn.parallel, "DistributedDataParallel", replica)
    patches.set(torch.nn.parallel.distributed, "DistributedDataParallel", replica)
    patches.set(torch.cuda, "device_count", lambda: world)

    def spawn(function: Callable[..., Any], args: Tuple[Any, ...] = (), *_: Any, **__: Any) -> None:
        function(0, *args)

    patches.set(torch.multiprocessing, "spawn", spawn)
    patches.set(torch.multiprocessing, "start_processes", spawn)


def _without_a_number(recorder: ScriptRecorder, name: str) -> Callable[..., None]:
    def refused(*_: Any, **__: Any) -> None:
        raise VramfitError(
            f"{recorder.where()}: found {name}, needed --world, the number of GPUs, or a script for one GPU",
            "`vramfit run --world 4 train.py` runs the first of four ranks",
        )

    return refused


def _group(patches: Patches, recorder: ScriptRecorder, world: int) -> None:
    state = {"is_initialized": False}

    def join(*_: Any, **__: Any) -> None:
        if not state["is_initialized"]:
            state["is_initialized"] = True
            recorder.has_process_group = True
            recorder.pseudo("process_group", {})
            recorder.cause(_CAUSE)

    def leave(*_: Any, **__: Any) -> None:
        state["is_initialized"] = False

    def collective(*_: Any, async_op: bool = False, **__: Any) -> Optional[_Work]:
        return _Work() if async_op else None

    def all_gather_object(found: List[Any], one: Any, *_: Any, **__: Any) -> None:
        found[:] = [one] * len(found)

    def gather_object(one: Any, found: Optional[List[Any]] = None, *_: Any, **__: Any) -> None:
        if found is not None:
            all_gather_object(found, one)

    answers: Dict[str, Any] = {
        "init_process_group": join, "destroy_process_group": leave, "is_initialized": lambda: state["is_initialized"],
        "is_nccl_available": lambda: True, "is_torchelastic_launched": lambda: True, "get_rank": lambda *_: 0, "get_node_local_rank": lambda *_: 0,
        "get_world_size": lambda *_: world, "get_backend": lambda *_: "nccl", "new_group": lambda *_, **__: object(),
        "all_gather_object": all_gather_object, "gather_object": gather_object, **{name: collective for name in _COLLECTIVES},
    }
    for owner in (torch.distributed, torch.distributed.distributed_c10d):
        for name, answer in answers.items():
            if hasattr(owner, name):
                patches.set(owner, name, answer)


def _refusals(patches: Patches, recorder: ScriptRecorder) -> None:
    import importlib

    def refuse(name: str) -> Callable[..., Any]:
        def refused(*_: Any, **__: Any) -> None:
            raise VramfitError(
                f"{recorder.where()}: found {name}, which `run` does not follow: of a distributed script it follows DistributedDataParallel",
                "`vramfit estimate --parallel` takes fsdp2, hsdp:RxS, zero1 and tp for a captured model",
            )

        return refused

    for module, names in _REFUSED.items():
        try:
            owner = importlib.import_module(module)
        except ImportError:
            continue
        for name in names:
            if hasattr(owner, name):
                patches.set(owner, name, refuse(name))
    # PyTorch's own code asks whether objects are of this class.
    patches.set(torch.distributed.device_mesh.DeviceMesh, "__init__", refuse("DeviceMesh"))
