"""Facts about operators, read once from PyTorch's own schemas."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Optional, Tuple

import torch
from torch._ops import OpOverload

# Composites that the file shows opened, as the calls inside them: their insides are the same on every device.
OPENED: FrozenSet[str] = frozenset({
    "aten::einsum", "aten::tensordot", "aten::chain_matmul", "aten::linalg_multi_dot", "aten::pad", "aten::meshgrid",
    "aten::meshgrid.indexing", "aten::inner", "aten::kron", "aten::cov", "aten::cartesian_prod", "aten::block_diag",
    "aten::nll_loss_nd",
})
# Composites that stay whole under autocast too: CUDA runs them by a library of its own (cuDNN's recurrent networks).
NEVER_OPENED = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")
# Operators that hand a value to Python: on a GPU they wait for it.
READERS: FrozenSet[str] = frozenset({
    "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal", "aten::allclose",
})
# What ordinary training values answer.
FINITE: Dict[str, bool] = {
    "aten::isinf": False, "aten::isnan": False, "aten::isposinf": False, "aten::isneginf": False, "aten::isfinite": True,
}
_COPIES = ("aten::to.", "aten::_to_copy")
_MEMORY_FORMATS = ("contiguous", "preserve", "channels_last", "channels_last_3d")
_ENUMERATIONS = {"memory_format": _MEMORY_FORMATS}


class Operator:
    """One operator overload: its arguments, and how the recorder has to treat it."""

    __slots__ = (
        "overload", "name", "qualified", "arguments", "defaults", "count", "positional", "device", "writes", "reshapes",
        "dynamic", "random", "empty", "copies", "reads", "finite", "opened", "composite", "index", "keywords", "detaches",
    )

    def __init__(self, overload: OpOverload) -> None:
        schema = overload._schema
        self.overload = overload
        self.qualified = overload._name
        self.name = str(overload)
        self.arguments: List[str] = [argument.name for argument in schema.arguments]
        self.defaults: List[Any] = [
            encode_default(argument.name, argument.default_value) if argument.has_default_value() else None
            for argument in schema.arguments
        ]
        self.keywords: List[str] = [argument.name for argument in schema.arguments if argument.kwarg_only]
        self.count = len(self.arguments)
        self.positional = self.count - len(self.keywords)
        self.device: Optional[int] = self.arguments.index("device") if "device" in self.arguments else None
        self.writes: Tuple[int, ...] = tuple(
            at for at, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        tags = overload.tags
        self.reshapes = torch.Tag.inplace_view in tags
        self.dynamic = torch.Tag.dynamic_output_shape in tags
        self.random = torch.Tag.nondeterministic_seeded in tags
        base = self.qualified.split(".")[0]
        self.empty = base in {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}
        self.copies = self.qualified.startswith(_COPIES)
        self.reads = base in READERS
        self.finite: Optional[bool] = FINITE.get(base)
        # PyTorch's own C++ composite, not a decomposition written in Python for its compilers.
        self.composite = base not in NEVER_OPENED and torch._C._dispatch_has_kernel_for_dispatch_key(self.qualified, "CompositeImplicitAutograd")
        self.opened = self.composite and self.qualified in OPENED
        self.detaches = base in ("aten::detach", "aten::detach_")
        self.index = -1


    def open(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the inside of a composite."""
        return self.overload._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def encode_default(name: str, value: Any) -> Any:
    """A schema's default as the recorder writes arguments."""
    if name in _ENUMERATIONS and type(value) is int:
        return {name: _ENUMERATIONS[name][value]}
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if isinstance(value, str):
        return {"string": value}
    return value


_SHORT: Dict[Any, Dict[str, str]] = {}


def encode_word(value: Any) -> Any:
    """A dtype, layout, memory format or string as it stands in the file: a small object that says what it is."""
    word = _SHORT.get(value) if not isinstance(value, str) else None
    if word is None:
        if isinstance(value, str):
            return {"string": value}
        if isinstance(value, torch.dtype):
            word = {"dtype": str(value).replace("torch.", "")}
        elif isinstance(value, torch.memory_format):
            word = {"memory_format": str(value).replace("torch.", "").replace("_format", "")}
        elif isinstance(value, torch.layout):
            word = {"layout": str(value).replace("torch.", "")}
        elif isinstance(value, torch.Generator):
            return {"generator": True}
        else:
            return {"other": type(value).__name__}
        _SHORT[value] = word
    return word
