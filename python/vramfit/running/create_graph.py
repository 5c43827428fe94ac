"""Backward passes with ``create_graph``: autograd's own calls are recorded, so that they can be differentiated in turn.

The graph that leads to the roots is built again on the meta device, with PyTorch's autograd on, and PyTorch's engine runs it. The
operators that its formulas call are recorded like those of a forward pass.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch

from ..tensors import META
from .recorder import RecordedCall, Reference, ScriptRecorder


class NotFollowed(Exception):
    """A call cannot be run again without values."""


def gradients(
    recorder: ScriptRecorder, roots: Sequence[int], given: Sequence[Optional[int]], inputs: Sequence[int], engine: Any,
) -> Tuple[Optional[torch.Tensor], ...]:
    """The gradients of tensors, as part of the graph. All are given by their numbers."""
    replay = _Replay(recorder)
    try:
        replay.build(roots)
    except Exception as problem:  # noqa: BLE001 - whatever PyTorch says about a call without values
        raise NotFollowed(f"{type(problem).__name__}: {problem}") from problem
    starts = tuple(replay.tensor(index) for index in roots)
    ends = tuple(replay.tensor(index) for index in inputs)
    seeds = tuple(None if index is None else replay.seed(index) for index in given)
    begun, made = len(recorder.steps), len(recorder.rows)
    recorder.pseudo("thread", {"is_backward": True})
    # The engine checks that gradients are on the device of what they are gradients of: no stand-in of this graph has values.
    recorder.layered += 1
    try:
        with replay.known_to_recorder():
            found: Tuple[Optional[torch.Tensor], ...] = engine(starts, seeds, True, True, ends, True, accumulate_grad=False)
    finally:
        recorder.layered -= 1
        recorder.pseudo("thread", {"is_backward": False})
    # Python had freed some of them, but autograd held them.
    for index in _used([step for at, step in enumerate(recorder.steps[begun:], begun) if at not in recorder.inner_steps]):
        if index < made:
            recorder.free_later(index)
    return found


class _Replay:
    """A graph that is built again."""

    def __init__(self, recorder: ScriptRecorder) -> None:
        self._recorder = recorder
        self._tensors: Dict[int, torch.Tensor] = {}

    def build(self, roots: Sequence[int]) -> None:
        """Runs the calls that lead to these tensors."""
        recorder = self._recorder
        with torch._C.DisableTorchFunction(), recorder.paused(), torch.enable_grad():
            for number in sorted(self._needed(roots)):
                self._run(recorder.calls[number])

    def _needed(self, roots: Sequence[int]) -> Set[int]:
        recorder = self._recorder
        stack, seen, calls = list(roots), set(), set()
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            for number in recorder.made_by.get(index, ()):
                if number not in calls:
                    calls.add(number)
                    stack.extend(_references(recorder.calls[number].args))
                    stack.extend(_references(list(recorder.calls[number].kwargs.values())))
                    stack.extend(result for result in recorder.calls[number].results if result is not None)
        return calls

    def tensor(self, index: int) -> torch.Tensor:
        """The tensor that takes the place of the one with this number."""
        found = self._tensors.get(index)
        if found is None:
            kind = self._recorder.record_of(index).kind
            with torch._C.DisableTorchFunction(), self._recorder.paused():
                found = torch.empty_strided(kind.shape, kind.stride, dtype=kind.dtype, device=META)
                if kind.requires_grad:
                    found.requires_grad_()
            self._tensors[index] = found
        return found

    def seed(self, index: int) -> torch.Tensor:
        """A gradient that the pass starts with."""
        return self.tensor(index)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Reference):
            return self.tensor(value.number)
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, torch.device):
            return META
        return value

    def _run(self, call: RecordedCall) -> None:
        args = [self._value(value) for value in call.args]
        kwargs = {name: self._value(value) for name, value in call.kwargs.items()}
        run = _fused_dropout if call.operator.qualified == "aten::dropout" else call.operator.overload
        result = run(*args, **kwargs)
        results = result if isinstance(result, (list, tuple)) else (result,)
        for index, one in zip(call.results, results):
            if index is not None and isinstance(one, torch.Tensor):
                self._tensors[index] = one

    def known_to_recorder(self) -> "_Known":
        """A context in which the recorder takes these tensors for those whose place they take."""
        return _Known(self._recorder, self._tensors)


class _Known:
    def __init__(self, recorder: ScriptRecorder, tensors: Dict[int, torch.Tensor]) -> None:
        self._recorder = recorder
        self._tensors = tensors

    def __enter__(self) -> None:
        recorder = self._recorder
        with torch._C.DisableTorchFunction():
            for index, tensor in self._tensors.items():
                recorder.infos[id(tensor)] = recorder.record_of(index)
                recorder.replayed.setdefault(tensor.untyped_storage()._cdata, []).append(index)
            recorder.replayed_tensors = self._tensors

    def __exit__(self, *_: Any) -> None:
        recorder = self._recorder
        recorder.replayed.clear()
        recorder.replayed_tensors = {}
        for tensor in self._tensors.values():
            recorder.infos.pop(id(tensor), None)


def _fused_dropout(source: torch.Tensor, p: float, train: bool) -> Any:
    """Dropout as a GPU runs it, which keeps a mask. On other devices the composite multiplies with noise instead."""
    if not train or not 0 < p < 1 or not source.numel():
        return torch.ops.aten.dropout.default(source, p, train)
    return torch.ops.aten.native_dropout.default(source, p, train)[0]


def _references(value: Any) -> List[int]:
    if isinstance(value, Reference):
        return [value.number]
    if isinstance(value, list):
        return [index for item in value for index in _references(item)]
    return []


def _used(steps: Sequence[Any]) -> Set[int]:
    found: Set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, str) and value.startswith("%"):
            found.add(int(value[1:]))
        elif isinstance(value, (list, tuple)):
            for item in value:
                look(item)

    for step in steps:
        if step[0] == "call":
            look(step[2])
    return found


