"""Backward passes of a script. No gradient is computed; each tensor that would get one gets a stand-in of its shape."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ..tensors import Info
from .create_graph import NotFollowed
from .create_graph import gradients as with_graph
from .recorder import ScriptRecorder

_ENGINE = torch.autograd.graph._engine_run_backward
_UNUSED = "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior."


def run_backward(
    recorder: ScriptRecorder, roots: Sequence[torch.Tensor], gradients: Sequence[Optional[torch.Tensor]], keep_graph: bool,
    create_graph: bool, inputs: Sequence[Any], allow_unreachable: bool, accumulate_grad: bool,
) -> Tuple[Optional[torch.Tensor], ...]:
    """What autograd's engine does for ``backward`` (with ``accumulate_grad``) and ``autograd.grad``."""
    with torch._C.DisableTorchFunction():
        starts = [recorder.info_of(root) for root in roots]
        given = tuple(None if one is None else recorder.info_of(one).name for one in gradients)
        indices = [info.index for info in starts]
        names = tuple(info.name for info in starts)
        keeps = bool(keep_graph or create_graph)
        if create_graph:
            recorder.cause("create_graph: what autograd's own operators keep for a second derivative is proven by few recordings")
            try:
                return _with_graph(recorder, roots, gradients, inputs, allow_unreachable, accumulate_grad)
            except NotFollowed as problem:
                recorder.cause(f"{recorder.where()}: create_graph=True: the graph of the gradients is not simulated ({problem})")
        if accumulate_grad:
            _accumulate(recorder, names, given, indices, keeps, inputs)
            _call_hooks(recorder, indices)
            return ()
        return _gradients(recorder, names, given, indices, keeps, create_graph, inputs, allow_unreachable)


def _with_graph(
    recorder: ScriptRecorder, roots: Sequence[torch.Tensor], gradients: Sequence[Optional[torch.Tensor]], inputs: Sequence[Any],
    allow_unreachable: bool, accumulate_grad: bool,
) -> Tuple[Optional[torch.Tensor], ...]:
    starts = [recorder.info_of(root).index for root in roots]
    given = [None if one is None else recorder.info_of(one).index for one in gradients]
    if not accumulate_grad:
        wanted = [recorder.info_of(one).index for one in inputs]
        found = with_graph(recorder, starts, given, wanted, _ENGINE)
        if any(one is None for one in found) and not allow_unreachable:
            raise RuntimeError(_UNUSED)
        return found
    leaves = [info for info in recorder.reached(starts) if not inputs or any(recorder.info_of(one) is info for one in inputs)]
    found = with_graph(recorder, starts, given, [info.index for info in leaves], _ENGINE)
    tensors = [_tensor(info) for info in leaves]
    with torch.enable_grad():
        for tensor, info, gradient in zip(tensors, leaves, found):
            if gradient is not None:
                # As AccumulateGrad does while grad mode is on.
                kept = gradient.clone() if tensor.grad is None else tensor.grad + gradient
                recorder.pseudo("set_grad", {"self": info.name, "gradient": recorder.info_of(kept).name})
                with recorder.paused():
                    tensor.grad = kept
    return ()


def _accumulate(recorder: ScriptRecorder, names: Tuple[str, ...], given: Any, indices: List[int], keeps: bool, inputs: Sequence[Any]) -> None:
    leaves = recorder.reached(indices)
    if inputs:
        wanted = {recorder.info_of(one).index for one in inputs}
        leaves = [info for info in leaves if info.index in wanted]
    leaves += [recorder.live[index] for index in sorted(recorder.retained) if index in recorder.live and recorder.is_reached(index, indices)]
    tensors = [_tensor(info) for info in leaves]
    fresh: List[Optional[torch.Tensor]] = []
    for tensor, info in zip(tensors, leaves):
        rows, before = recorder.sparse_rows(info, indices, keeps), tensor.grad
        held = None if before is None else recorder.sparse.of(recorder.info_of(before))
        # A sparse gradient cannot take a dense one: their sum is new.
        is_new = before is None or (held is not None and rows is None)
        fresh.append(recorder.gradient_like(tensor, info, rows) if is_new else None)
        if held is not None and rows is not None:
            held.add(rows)
        del before
    results = [None if one is None else recorder.info_of(one).name for one in fresh]
    recorder.pseudo(
        "backward", {"roots": names, "gradients": given, "leaves": tuple(info.name for info in leaves), "keeps_graph": keeps, "only": bool(inputs)},
        results,
    )
    with recorder.paused():
        for tensor, gradient in zip(tensors, fresh):
            if gradient is not None:
                tensor.grad = gradient


def _call_hooks(recorder: ScriptRecorder, indices: List[int]) -> None:
    """Calls the hooks on gradients, all of them when the pass has ended."""
    for index in recorder.hooked(indices):
        info = recorder.live.get(index)
        tensor = info.reference() if info is not None and info.reference is not None else None
        for hook, takes_leaf in list(recorder.hooks[index]):
            recorder.cause(f"{recorder.where()}: hooks on gradients are simulated after the backward pass, not within it")
            if takes_leaf:
                if tensor is not None:
                    hook(tensor)
            else:
                kind = recorder.rows[index][0]
                gradient = tensor.grad if tensor is not None and tensor.grad is not None else None
                if gradient is None:
                    with recorder.paused():
                        gradient = recorder.session.kinds.get(kind.dtype, kind.shape, kind.stride, False).result()
                    recorder.constants.append(recorder.adopt(gradient, recorder.session.kinds.of(gradient), None, 0, True).index)
                hook(gradient)


def _gradients(
    recorder: ScriptRecorder, names: Tuple[str, ...], given: Any, indices: List[int], keeps: bool, create_graph: bool,
    inputs: Sequence[torch.Tensor], allow_unreachable: bool,
) -> Tuple[Optional[torch.Tensor], ...]:
    wanted = [recorder.info_of(one) for one in inputs]
    reached = [recorder.is_reached(info.index, indices) for info in wanted]
    if not all(reached) and not allow_unreachable:
        raise RuntimeError(_UNUSED)
    found = [
        recorder.gradient_like(one, info, recorder.sparse_rows(info, indices, keeps)) if is_reached else None
        for one, info, is_reached in zip(inputs, wanted, reached)
    ]
    results = [None if one is None else recorder.info_of(one).name for one in found]
    recorder.pseudo(
        "grad", {"roots": names, "gradients": given, "inputs": tuple(info.name for info in wanted), "keeps_graph": keeps}, results,
    )
    return tuple(found)


def _tensor(info: Info) -> torch.Tensor:
    tensor = info.reference() if info.reference is not None else None
    assert tensor is not None, "a live tensor has an object"
    return tensor
