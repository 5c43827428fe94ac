"""``torch.cuda`` as it answers on a machine with the chosen GPU."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Tuple

import torch

from ..patches import Patches
from .properties import Gpu, Properties, check_device

__all__ = ["Gpu", "install"]


class _Stream:
    """Stands for a CUDA stream: all work is taken to run in order."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    wait_stream = wait_event = lambda self, *_, **__: None  # noqa: E731

    def record_event(self, event: Any = None) -> Any:
        """An event that has happened."""
        return event if event is not None else _Event()

    def query(self) -> bool:
        """Everything is done."""
        return True

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class _Event:
    """Stands for a CUDA event, which has happened at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    record = wait = synchronize = lambda self, *_, **__: None  # noqa: E731

    def query(self) -> bool:
        """It has happened."""
        return True

    def elapsed_time(self, *_: Any) -> float:
        """Milliseconds; time is not simulated."""
        return 1.0


class _Graph:
    """Stands for a CUDA graph: what is captured runs once, without a pool of its own, and a replay allocates nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    capture_begin = capture_end = replay = reset = instantiate = enable_debug_mode = debug_dump = lambda self, *_, **__: None  # noqa: E731

    def pool(self) -> Tuple[int, int]:
        """The handle of a pool."""
        return (0, 0)


class _Generator(torch.Generator):
    """A generator that scripts ask for on the GPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls)


_NOTHING: Tuple[str, ...] = (
    "synchronize", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all", "init",
    "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats",
    "set_stream", "_lazy_init", "set_per_process_memory_fraction", "_sleep", "set_sync_debug_mode",
)
_ZERO: Tuple[str, ...] = (
    "current_device", "initial_seed", "utilization", "temperature", "power_draw", "clock_rate", "memory_usage",
)


def install(patches: Patches, gpu: Gpu, recorder: Any) -> None:
    """Has ``torch.cuda`` answer for the GPU."""
    cuda = torch.cuda

    def always(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    def empty_cache() -> None:
        recorder.pseudo("empty_cache", {})

    def stream(*_: Any, **__: Any) -> Any:
        return contextlib.nullcontext()

    def graph(*_: Any, **__: Any) -> Any:
        recorder.cause(f"{recorder.where()}: the memory that a CUDA graph keeps for itself is not modelled; its operators run eagerly")
        return contextlib.nullcontext()

    def graphed(callables: Any, *_: Any, **__: Any) -> Any:
        graph()
        return callables

    answers: Dict[str, Any] = {
        "CUDAGraph": _Graph, "graph": graph, "make_graphed_callables": graphed, "graph_pool_handle": always((0, 0)),
        "is_available": always(True), "device_count": always(1), "is_initialized": always(True), "get_device_name": always(gpu.name),
        "get_device_capability": always(gpu.capability), "get_device_properties": always(Properties(gpu, recorder)),
        "is_bf16_supported": always(gpu.capability >= (8, 0)),
        "current_stream": always(_Stream()), "default_stream": always(_Stream()), "stream": stream, "Stream": _Stream, "Event": _Event,
        "StreamContext": stream, "empty_cache": empty_cache, "get_rng_state": _rng_state, "get_rng_state_all": lambda: [_rng_state()],
        "get_arch_list": always([f"sm_{gpu.capability[0]}{gpu.capability[1]}"]), "can_device_access_peer": always(False),
        "set_device": check_device, "is_current_stream_capturing": always(False), "get_sync_debug_mode": always(0),
    }
    answers.update({name: always(None) for name in _NOTHING})
    answers.update({name: always(0) for name in _ZERO})
    figures = recorder.memory_reads.answers(gpu.memory)
    answers.update(figures)
    for name, answer in answers.items():
        if hasattr(cuda, name):
            patches.set(cuda, name, answer)
        if hasattr(cuda.memory, name):
            patches.set(cuda.memory, name, answer)
        if hasattr(cuda.random, name):
            patches.set(cuda.random, name, answer)
    patches.set(cuda, "device", _Device)
    patches.set(torch.backends.cudnn, "is_available", always(True))
    patches.set(torch.backends.cudnn, "is_acceptable", lambda tensor: tensor.is_cuda)
    patches.set(torch.backends.cudnn, "version", always(91900))
    patches.set(torch.version, "cuda", "13.0")
    patches.set(torch, "Generator", _Generator)
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None:
        values: Dict[str, Any] = {
            "is_available": True, "device_count": 1, "current_accelerator": torch.device("cuda"), "current_device_index": 0,
            "synchronize": None, "set_device_index": None, "current_device_idx": 0, "reset_peak_memory_stats": None,
            "reset_accumulated_memory_stats": None,
        }
        functions = {**{name: always(value) for name, value in values.items()}, **figures, "empty_cache": empty_cache}
        for name, answer in functions.items():
            if hasattr(accelerator, name):
                patches.set(accelerator, name, answer)
    patches.set(torch.cuda.amp.common, "amp_definitely_not_available", always(False))


def _rng_state(*_: Any, **__: Any) -> torch.Tensor:
    return torch.zeros(16, dtype=torch.uint8, device="cpu")


class _Device:
    """Stands for ``torch.cuda.device``: there is one GPU."""

    def __init__(self, device: Any = None) -> None:
        check_device(device)
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


