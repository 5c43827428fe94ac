"""Function transforms inside a model, such as ``torch.vmap``. Each layer unwraps a call and repeats it one layer down, until
it is a call on plain tensors. Only that call runs and is recorded."""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, FrozenSet, List, Sequence

import torch
from torch._ops import OpOverload

_KEY = torch._C.DispatchKey
_SEEN = (_KEY.PreDispatch, _KEY.PythonDispatcher)


def in_a_transform() -> bool:
    """Whether a call belongs to a layer above the plain tensors."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def builds_a_graph() -> bool:
    """Whether the innermost layer is one of gradients."""
    layer = torch._C._functorch.peek_interpreter_stack()
    return layer is not None and layer.key() == torch._C._functorch.TransformType.Grad


def hand_on(recorder: Any, overload: OpOverload, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
    """Makes a call as the dispatcher would without a recorder. The layers still reach the recorder below them."""
    from .regions import tensors_in

    keys = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors_in((args, kwargs), []):
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    for key in _SEEN:
        keys = keys.remove(key)
    # With explicit keys, the dispatcher does not skip those at which the operator falls through, here and further down.
    for key in _passed_over(overload):
        keys = keys.remove(key)
    return overload.redispatch(keys, *_numbers_as_tensors(recorder, overload, args), **kwargs)


def _numbers_as_tensors(recorder: Any, overload: OpOverload, args: Sequence[Any]) -> List[Any]:
    """Converts numbers to host tensors where the operator takes tensors: the dispatcher shows them as numbers but needs tensors."""
    # In the dtype of the other arguments, so that it does not decide the result's.
    floating = next((value.dtype for value in args if isinstance(value, torch.Tensor) and value.is_floating_point()), None)
    found = list(args)
    for at, (value, argument) in enumerate(zip(args, overload._schema.arguments)):
        if isinstance(value, (bool, int, float, complex)) and isinstance(argument.type, torch.TensorType):
            found[at] = recorder.scalar(value, floating)
    return found


@functools.lru_cache(maxsize=None)
def _passed_over(overload: OpOverload) -> FrozenSet[Any]:
    """The keys at which an operator only falls through. Fallbacks of backends are listed only in the dispatcher's table."""
    names = re.findall(r"^(\w+): fallthrough ", torch._C._dispatch_dump_table(overload.name()), re.MULTILINE)
    return frozenset(getattr(_KEY, name) for name in names if hasattr(_KEY, name))
