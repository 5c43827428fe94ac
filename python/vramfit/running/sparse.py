"""Sparse gradients: what ``nn.Embedding(sparse=True)`` and ``nn.EmbeddingBag(sparse=True)`` give.

PyTorch's sparse tensors have no stand-ins on the meta device. A dense one of the same shape takes the place of each; the recorder knows
which of them are sparse, and how many rows they have.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import torch

from ..function_mode import _property
from .function_mode import ScriptMode, _script_handles
from .sparse_rows import Rows

Tensor = torch.Tensor


def _rows(mode: ScriptMode, tensor: Any) -> Optional[Rows]:
    """The rows of a sparse tensor, None for others."""
    return mode.recorder.sparse.of(mode.recorder.infos.get(id(tensor)))


def _rows_of_indices(mode: ScriptMode, tensor: Any) -> Optional[Rows]:
    return mode.recorder.sparse.with_indices(mode.recorder.infos.get(id(tensor)))


def _pseudo(mode: ScriptMode, name: str, arguments: Dict[str, Any], result: torch.Tensor, **more: Any) -> torch.Tensor:
    """Records a call that PyTorch cannot run on stand-ins."""
    recorder = mode.recorder
    info = recorder.adopt(result, recorder.session.kinds.of(result), None, 0, False, **more)
    number = recorder.session.pseudo(name, list(arguments))
    recorder.steps.append(("call", number, list(arguments.values()), [info.name], recorder.session.sources.here(), 0))
    return result


def _stand_in(mode: ScriptMode, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    with torch._C.DisableTorchFunction(), mode.recorder.paused():
        return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _name(mode: ScriptMode, tensor: torch.Tensor) -> str:
    return mode.recorder.info_of(tensor).name


def _run(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return super(ScriptMode, mode).__torch_function__(func, (), args, kwargs)


@_script_handles(_property("is_sparse").__get__)
def _is_sparse(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return _rows(mode, args[0]) is not None or func(*args)


@_script_handles(_property("layout").__get__)
def _layout(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return torch.sparse_coo if _rows(mode, args[0]) is not None else func(*args)


@_script_handles(Tensor._nnz)
def _nnz(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows(mode, args[0])
    return func(*args) if rows is None else rows.count


@_script_handles(Tensor.sparse_dim, Tensor.dense_dim)
def _dims(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if _rows(mode, args[0]) is None:
        return func(*args)
    return 1 if func is Tensor.sparse_dim else args[0].dim() - 1


@_script_handles(Tensor.is_coalesced)
def _is_coalesced(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows(mode, args[0])
    return func(*args) if rows is None else rows.coalesced


@_script_handles(Tensor.coalesce)
def _coalesce(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """Rows of the same number are added up. Where it is not known which they are, each is as likely as any other."""
    tensor = args[0]
    rows = _rows(mode, tensor)
    if rows is None:
        return func(*args)
    if rows.coalesced:
        return tensor
    with torch._C.DisableTorchFunction(), mode.recorder.paused():
        numbers = rows.numbers()
        distinct = None if numbers is None else torch.unique(numbers)
    most, all_rows = min(rows.count, tensor.shape[0]), tensor.shape[0]
    count = max(min(1, most), min(most, round(all_rows * (1 - (1 - 1 / all_rows) ** rows.count)))) if distinct is None else distinct.numel()
    result = _stand_in(mode, tensor.dtype, tensor.shape)
    certain = rows.certain and mode.recorder.random_numbers.is_seeded
    arguments = {"self": _name(mode, tensor), "distinct": None if distinct is None else count, "is_certain": certain}
    _pseudo(mode, "vramfit.coalesce", arguments, result)
    mode.recorder.sparse.mark(mode.recorder.info_of(result), Rows(count, None if distinct is None else [distinct], True, rows.certain))
    return result


@_script_handles(Tensor._indices, Tensor.indices)
def _indices(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows(mode, args[0])
    if rows is None:
        return func(*args)
    with torch._C.DisableTorchFunction(), mode.recorder.paused():
        numbers = rows.numbers()
        result = torch.empty((1, rows.count), dtype=torch.int64, device="meta") if numbers is None else numbers.reshape(1, -1).clone()
    known = numbers is not None
    _pseudo(mode, "aten._indices.default", {"self": _name(mode, args[0])}, result, real=known, known=known)
    mode.recorder.sparse.mark_indices(mode.recorder.info_of(result), rows)
    return result


@_script_handles(Tensor._values, Tensor.values)
def _values(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows(mode, args[0])
    if rows is None:
        return func(*args)
    result = _stand_in(mode, args[0].dtype, (rows.count, *args[0].shape[1:]))
    return _pseudo(mode, "aten._values.default", {"self": _name(mode, args[0])}, result)


def _made(mode: ScriptMode, indices: torch.Tensor, values: torch.Tensor, size: Sequence[int], rows: Rows) -> torch.Tensor:
    result = _stand_in(mode, values.dtype, size)
    arguments = {"indices": _name(mode, indices), "values": _name(mode, values), "size": tuple(int(side) for side in size)}
    _pseudo(mode, "aten.sparse_coo_tensor.indices_size", arguments, result)
    mode.recorder.sparse.mark(mode.recorder.info_of(result), Rows(rows.count, rows.known, certain=rows.certain))
    return result


@_script_handles(torch.sparse_coo_tensor)
def _sparse_coo_tensor(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """A sparse tensor on the indices of a sparse gradient, as optimizers make it."""
    rows = _rows_of_indices(mode, args[0]) if len(args) == 3 and not kwargs else None
    return _run(mode, func, args, kwargs) if rows is None else _made(mode, args[0], args[1], args[2], rows)


@_script_handles(Tensor.new)
def _new(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows_of_indices(mode, args[1]) if len(args) == 4 and not kwargs else None
    return _run(mode, func, args, kwargs) if rows is None else _made(mode, args[1], args[2], args[3], rows)


@_script_handles(Tensor.sparse_mask)
def _sparse_mask(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    rows = _rows(mode, args[1]) if len(args) == 2 else None
    if rows is None:
        return _run(mode, func, args, kwargs)
    result = _stand_in(mode, args[0].dtype, args[0].shape)
    _pseudo(mode, "aten.sparse_mask.default", {"self": _name(mode, args[0]), "mask": _name(mode, args[1])}, result)
    mode.recorder.sparse.mark(mode.recorder.info_of(result), rows.copy())
    return result


@_script_handles(Tensor.to_dense)
def _to_dense(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if _rows(mode, args[0]) is None:
        return _run(mode, func, args, kwargs)
    result = _stand_in(mode, args[0].dtype, args[0].shape)
    return _pseudo(mode, "aten._to_dense.default", {"self": _name(mode, args[0])}, result)
