"""What the recorder knows of each tensor: its kind, its storage, and whether its values are real or unknown."""

from __future__ import annotations

import weakref
from typing import Any, Dict, FrozenSet, Optional, Tuple

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

META = torch.device("meta")
# While a script runs, new parameters are recorded where this is called.
_make_subclass = torch.Tensor._make_subclass
CPU = torch.device("cpu")

_KEYS = torch._C.DispatchKey
_AUTOGRAD = torch._C.DispatchKeySet(_KEYS.ADInplaceOrView)
for _key in (_KEYS.AutogradCPU, _KEYS.AutogradMeta, _KEYS.AutogradOther):
    _AUTOGRAD = _AUTOGRAD | torch._C.DispatchKeySet(_key)


def without_autograd() -> Any:
    """A context without autograd: no graph, no saved tensors, no tracking of views."""
    return torch._C._ExcludeDispatchKeyGuard(_AUTOGRAD)


REQUIRES_GRAD, LEAF, HOST, VIEW = 1, 2, 4, 8


def numel(shape: Tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


class Kind:
    """What a shape rule needs to know of a tensor. Equal tensors share one object, so that it can be a key."""

    __slots__ = ("dtype", "shape", "stride", "requires_grad", "_example")

    def __init__(self, dtype: torch.dtype, shape: Tuple[int, ...], stride: Tuple[int, ...], requires_grad: bool) -> None:
        self.dtype = dtype
        self.shape = shape
        self.stride = stride
        self.requires_grad = requires_grad
        self._example: Optional[torch.Tensor] = None

    def stand_in(self) -> torch.Tensor:
        """A new meta tensor of this kind with its own storage."""
        tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=META)
        return tensor.requires_grad_() if self.requires_grad else tensor

    def zeros(self) -> torch.Tensor:
        """A real tensor of this kind, full of zeros."""
        tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=CPU)
        # The storage, since elements of an expanded tensor share memory and cannot be written to.
        torch.empty(0, dtype=self.dtype, device=CPU).set_(tensor.untyped_storage()).zero_()
        return tensor

    def result(self) -> torch.Tensor:
        """A meta tensor to return to the model as the result of a call. It shares its (empty) storage with others."""
        if self._example is None:
            self._example = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=META)
        return _make_subclass(torch.Tensor, self._example, self.requires_grad)


class Kinds:
    """The table of kinds seen so far."""

    def __init__(self) -> None:
        self._table: Dict[Tuple[Any, ...], Kind] = {}

    def get(self, dtype: torch.dtype, shape: Tuple[int, ...], stride: Tuple[int, ...], requires_grad: bool) -> Kind:
        key = (dtype, shape, stride, requires_grad)
        kind = self._table.get(key)
        if kind is None:
            kind = self._table[key] = Kind(dtype, shape, stride, requires_grad)
        return kind

    def of(self, tensor: torch.Tensor) -> Kind:
        if isinstance(tensor, UninitializedTensorMixin):
            # The weights of lazy modules refuse to say anything before the first call. They are empty.
            with torch._C.DisableTorchFunction():
                return self.get(tensor.data.dtype, (0,), (1,), tensor.requires_grad)
        return self.get(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad)


class Storage:
    """The memory under one or more tensors.

    ``known``: its values are real, on this machine's CPU. ``random``: they are random, so another run has others.
    ``given``: they depend on the inputs and targets with these names, so another batch has others.
    ``assumed``: they follow from assumptions about values that are computed from the weights.
    ``bounds``: the least and the greatest that unknown values can be, where the call that made them says so.
    """

    __slots__ = ("index", "known", "random", "given", "assumed", "bounds")

    def __init__(self, index: int, known: bool) -> None:
        self.index = index
        self.known = known
        self.random = False
        self.assumed = False
        self.given: FrozenSet[str] = frozenset()
        self.bounds: Optional[Tuple[float, float]] = None


class Info:
    """One tensor of the recorded step."""

    __slots__ = ("index", "name", "kind", "storage", "offset", "host", "leaf", "view", "reference", "real", "detached")

    def __init__(self, index: int, kind: Kind, storage: Storage, offset: int, host: bool, leaf: bool, view: bool, real: bool) -> None:
        self.index = index
        self.name = f"%{index}"
        self.kind = kind
        self.storage = storage
        self.offset = offset
        self.host = host
        self.leaf = leaf
        self.view = view
        self.real = real
        self.detached = False
        self.reference: Optional[weakref.ref[torch.Tensor]] = None

    @property
    def known(self) -> bool:
        """Whether the tensor's values are known."""
        return self.real and self.storage.known
