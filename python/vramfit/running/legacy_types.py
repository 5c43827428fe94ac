"""The types of old scripts: ``torch.cuda.FloatTensor(...)``, ``x.type(torch.cuda.FloatTensor)``, ``Variable(x)``."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch

from ..patches import Patches
from .function_mode import ScriptMode, _script_handles

_DTYPES: Dict[str, torch.dtype] = {
    "FloatTensor": torch.float32, "DoubleTensor": torch.float64, "HalfTensor": torch.float16, "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64, "IntTensor": torch.int32, "ShortTensor": torch.int16, "CharTensor": torch.int8, "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}
_NAMES: Dict[torch.dtype, str] = {dtype: name for name, dtype in _DTYPES.items()}


class _Kind(type):
    """Has ``isinstance`` ask for the device and the element type."""

    dtype: torch.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype


def _made(name: str, dtype: torch.dtype) -> Any:
    def make(cls: Any, *values: Any, device: Any = None) -> torch.Tensor:
        if len(values) == 1 and isinstance(values[0], torch.Tensor):
            return values[0].detach()
        if len(values) == 1 and not isinstance(values[0], (int, torch.Size)):
            return torch.tensor(values[0], dtype=dtype, device="cuda")
        sizes = values[0] if len(values) == 1 and isinstance(values[0], torch.Size) else values or (0,)
        return torch.empty(*sizes, dtype=dtype, device="cuda")

    return _Kind(name, (), {"__new__": make, "dtype": dtype, "is_cuda": True, "is_sparse": False, "__module__": "torch.cuda"})


class _VariableKind(type):
    """Every tensor is a variable."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, torch.Tensor)


class _Variable(metaclass=_VariableKind):
    """``Variable(x)``: another tensor on the same memory."""

    _execution_engine = torch.autograd.Variable._execution_engine

    def __new__(cls, data: torch.Tensor, requires_grad: bool = False, volatile: bool = False) -> Any:
        variable = data.detach()
        return variable.requires_grad_() if requires_grad else variable


def install(patches: Patches) -> None:
    """Has the types of ``torch.cuda`` make tensors of the GPU."""
    patches.set(torch.autograd, "Variable", _Variable)
    for name, dtype in _DTYPES.items():
        patches.set(torch.cuda, name, _made(name, dtype))

    def set_default_tensor_type(kind: Any) -> None:
        on_gpu, dtype = _meant(kind)
        torch.set_default_device("cuda" if on_gpu else "cpu")
        torch.set_default_dtype(dtype)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)


def _meant(kind: Any) -> Tuple[bool, torch.dtype]:
    """Whether a type is one of the GPU, and its element type."""
    if isinstance(kind, str):
        name = kind.rpartition(".")[2]
        if name not in _DTYPES:
            raise ValueError(f"invalid type: '{kind}'")
        return ".cuda." in kind, _DTYPES[name]
    return bool(getattr(kind, "is_cuda", False)), kind.dtype


@_script_handles(torch.Tensor.type)
def _type(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    tensor = args[0]
    kind = args[1] if len(args) > 1 else kwargs.get("dtype")
    info = mode.recorder.info_of(tensor)
    if kind is None:
        return f"torch.{'' if info.host else 'cuda.'}{_NAMES.get(info.kind.dtype, 'Tensor')}"
    with mode:
        if isinstance(kind, torch.dtype):
            return tensor.to(kind)
        on_gpu, dtype = _meant(kind)
        return tensor.to("cuda" if on_gpu else "cpu", dtype)
