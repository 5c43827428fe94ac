"""The backward of custom ``autograd.Function``s, recorded right after their forward with gradients that have only shapes."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .recorder import Recorder
from .tensors import Info


class RecordedBackward(NamedTuple):
    """The calls of one custom backward. ``end`` is the index of the step at which the function's forward ends.

    ``arguments`` are the function's tensor arguments without those in lists, ``kept`` the tensors that its context holds as attributes.
    """

    end: int
    arguments: List[str]
    kept: List[str]
    gradients: List[Optional[str]]
    results: List[Optional[str]]
    steps: List[Tuple[Any, ...]]


class _Context:
    """The context of a custom function as its backward sees it, with stand-ins for the tensors that its forward saved."""

    def __init__(self, context: Any, saved: Tuple[Any, ...]) -> None:
        self._context = context
        self.saved_tensors = saved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class SavedTensors:
    """Stand-ins for what a forward saved. Each has its original's number, and does not keep the original alive."""

    def __init__(self, recorder: Recorder, tensors: Sequence[Any]) -> None:
        self._recorder = recorder
        self.tensors = tuple(self._stand_in(tensor) if isinstance(tensor, torch.Tensor) else None for tensor in tensors)

    def _stand_in(self, tensor: torch.Tensor) -> torch.Tensor:
        recorder = self._recorder
        with torch._C.DisableTorchFunction():
            original = recorder.info_of(tensor)
            with recorder.paused():
                other = tensor.detach() if original.real else original.kind.result().detach()
            info = Info(
                original.index, original.kind, original.storage, original.offset, original.host, original.leaf, original.view, original.real,
            )
            recorder.infos[id(other)] = info
            return other

    def drop(self) -> None:
        """Forgets the stand-ins."""
        for tensor in self.tensors:
            if tensor is not None:
                self._recorder.infos.pop(id(tensor), None)
        self.tensors = ()


def record_backward(
    recorder: Recorder, function: Any, context: Any, saved: SavedTensors, kept: List[str], results: Any, arguments: Sequence[Any],
) -> Optional[RecordedBackward]:
    """The calls of the function's backward, or None if it cannot run without values or runs a backward pass of its own."""
    forward_steps, recorder.steps = recorder.steps, []
    end = len(forward_steps)
    was_on, was_cast = torch.is_grad_enabled(), torch.is_autocast_enabled("cuda")
    try:
        # As the engine calls it: outside of the forward's autocast region.
        _set_modes(False, False)
        results = results if isinstance(results, tuple) else (results,)
        gradients = [_gradient(recorder, result) for result in results]
        names = [
            None if gradient is None else recorder.info_of(gradient).name
            for gradient, result in zip(gradients, results) if isinstance(result, torch.Tensor)
        ]
        returned = function.backward(_Context(context, saved.tensors), *gradients)
        returned = returned if isinstance(returned, tuple) else (returned,)
        found = [
            recorder.info_of(returned[at]).name if at < len(returned) and isinstance(returned[at], torch.Tensor) else None
            for at, argument in enumerate(arguments) if isinstance(argument, torch.Tensor)
        ]
        if ("grad", True) in recorder.steps:
            return None
        direct = [recorder.info_of(argument).name for argument in arguments if isinstance(argument, torch.Tensor)]
        return RecordedBackward(end, direct, kept, names, found, recorder.steps)
    except Exception:  # noqa: BLE001 - whatever it raises, the function is named as one whose backward is not known
        return None
    finally:
        recorder.steps = []
        gradients, returned = [], ()  # what they free is not part of the forward
        saved.drop()
        recorder.steps = forward_steps
        _set_modes(was_on, was_cast)


def _set_modes(grad: bool, autocast: bool) -> None:
    with torch._C.DisableTorchFunction():
        torch._C._set_grad_enabled(grad)
        torch.set_autocast_enabled("cuda", autocast)


def _gradient(recorder: Recorder, result: Any) -> Optional[torch.Tensor]:
    if not isinstance(result, torch.Tensor) or not (result.is_floating_point() or result.is_complex()):
        return None
    with torch._C.DisableTorchFunction():
        kind = recorder.session.kinds.get(result.dtype, tuple(result.shape), tuple(result.stride()), False)
        with recorder.paused():
            gradient = kind.result()
        recorder.adopt(gradient, kind, None, 0, False)
    return gradient


def watching_saves(recorder: Recorder, run: Callable[[], Any]) -> Tuple[Any, SavedTensors]:
    """Runs a function's forward and returns its result with what it passed to ``save_for_backward``."""
    kind = torch.autograd.function.FunctionCtx
    original = kind.save_for_backward
    saved: List[SavedTensors] = [SavedTensors(recorder, ())]

    def save_for_backward(context: Any, *tensors: Any) -> Any:
        saved.append(SavedTensors(recorder, tensors))
        return original(context, *tensors)

    setattr(kind, "save_for_backward", save_for_backward)
    try:
        return run(), saved[-1]
    finally:
        setattr(kind, "save_for_backward", original)
