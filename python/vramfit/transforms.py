"""Function transforms inside a model, such as ``torch.vmap``: each of their layers unwraps a call and makes it again one layer
down, until it is one on plain tensors. That one is what runs, and what is recorded."""

from __future__ import annotations

import functools
import re
from typing import Any, Dict, FrozenSet, List, Sequence

import torch
from torch._ops import OpOverload

_KEY = torch._C.DispatchKey
_SEEN = (_KEY.PreDispatch, _KEY.PythonDispatcher)


def in_a_transform() -> bool:
    """Whether a call is one of a layer above the plain tensors."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def hand_on(recorder: Any, overload: OpOverload, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
    """Makes a call as the dispatcher would if nobody recorded; the layers still find the recorder below them."""
    from .regions import tensors_in

    keys = torch._C._dispatch_tls_local_include_set()
    for tensor in tensors_in((args, kwargs), []):
        keys = keys | torch._C._dispatch_keys(tensor)
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    for key in _SEEN:
        keys = keys.remove(key)
    # The dispatcher passes over these by itself only where it has chosen the keys.
    while keys.highestPriorityTypeId().name in _passed_over(overload):
        keys = keys.remove(keys.highestPriorityTypeId())
    return overload.redispatch(keys, *_numbers_as_tensors(recorder, overload, args), **kwargs)


def _numbers_as_tensors(recorder: Any, overload: OpOverload, args: Sequence[Any]) -> List[Any]:
    """Numbers where the operator takes tensors: the dispatcher shows them as numbers, but wants them back as tensors of the host."""
    # In the others' type: it must not decide that of the result.
    floating = next((value.dtype for value in args if isinstance(value, torch.Tensor) and value.is_floating_point()), None)
    found = list(args)
    for at, (value, argument) in enumerate(zip(args, overload._schema.arguments)):
        if isinstance(value, (bool, int, float, complex)) and isinstance(argument.type, torch.TensorType):
            found[at] = recorder.scalar(value, floating)
    return found


@functools.lru_cache(maxsize=None)
def _passed_over(overload: OpOverload) -> FrozenSet[str]:
    """The keys at which an operator does nothing but go on; of backends' fallbacks only the dispatcher's table tells."""
    return frozenset(re.findall(r"^(\w+): fallthrough ", torch._C._dispatch_dump_table(overload.name()), re.MULTILINE))
