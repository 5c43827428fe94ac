"""Makes the casts that CUDA's autocast would make, because it ignores meta tensors."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .autocast import APPEND_DTYPE, BANNED, FLOAT32_DTYPE, LOWER, POLICIES, PROMOTE
from .errors import CaptureError
from .operators import Operator
from .outcomes import substituted
from .session import Session
from .tensors import Info

CAST, CACHED_CAST = 1, 2
_CASTABLE = (torch.float32, torch.float16, torch.bfloat16)


class Casting:
    """The part of a recorder that handles autocast."""

    # Defined by the recorder, which inherits from this class.
    session: Session
    info_of: Any
    where: Any
    call: Any
    _inside: Any

    def __init__(self) -> None:
        self.autocast_cache: Dict[int, torch.Tensor] = {}
        self._autocast_off = 0
        self._probing: Optional[List[str]] = None

    def _cast_arguments(
        self, policy: int, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], temporaries: List[torch.Tensor],
    ) -> Tuple[Operator, Sequence[Any], Dict[str, Any]]:
        """The arguments as CUDA's autocast would pass them on. They are cast from last to first, as in C++."""
        lower = torch.get_autocast_dtype("cuda")
        if policy == BANNED:
            raise CaptureError(
                f"{self.where()}: binary_cross_entropy is not allowed under autocast",
                "use binary_cross_entropy_with_logits, as PyTorch asks for",
            )
        if policy in (FLOAT32_DTYPE, APPEND_DTYPE):
            first = args[0] if args else kwargs.get(operator.arguments[0])
            if not isinstance(first, torch.Tensor) or not self._eligible(self.info_of(first)):
                return operator, args, kwargs
            if policy == APPEND_DTYPE:
                other = {"aten::norm.Scalar": "ScalarOpt_dtype", "aten::norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}.get(operator.qualified)
                if other is None:
                    return operator, args, kwargs
                kwargs = dict(kwargs, dtype=torch.float32)
                if other == "ScalarOpt_dim_dtype" and len(args) < 4:
                    kwargs.setdefault("keepdim", False)  # which has no default there
                return self.session.operator(getattr(torch.ops.aten.norm, other)), args, kwargs
            at = operator.arguments.index("dtype")
            if at < len(args):
                if args[at] is None:
                    args = list(args)
                    args[at] = torch.float32
            elif kwargs.get("dtype") is None:
                kwargs = dict(kwargs, dtype=torch.float32)
            return operator, args, kwargs
        if policy == PROMOTE:
            found = [self.info_of(value) for value in self._tensors(args, kwargs)]
            wide = any(info.kind.dtype is torch.float32 for info in found if self._eligible(info))
            target = torch.float32 if wide else lower
        else:
            target = lower if policy == LOWER else torch.float32
        new_args, new_kwargs = list(args), dict(kwargs)
        for at in reversed(range(operator.count)):
            name = operator.arguments[at]
            if at < len(new_args):
                new_args[at] = self._cast(new_args[at], target, lower, temporaries)
            elif name in new_kwargs:
                new_kwargs[name] = self._cast(new_kwargs[name], target, lower, temporaries)
        return operator, new_args, new_kwargs

    @staticmethod
    def _tensors(args: Sequence[Any], kwargs: Dict[str, Any]) -> List[torch.Tensor]:
        found: List[torch.Tensor] = []
        for value in [*args, *kwargs.values()]:
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, torch.Tensor):
                    found.append(item)
        return found

    @staticmethod
    def _eligible(info: Info) -> bool:
        return not info.host and info.kind.dtype in _CASTABLE

    def _cast(self, value: Any, target: torch.dtype, lower: torch.dtype, temporaries: List[torch.Tensor]) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._cast(item, target, lower, temporaries) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        info = self.info_of(value)
        if not self._eligible(info) or info.kind.dtype is target:
            return value
        keep = target is lower and info.kind.dtype is torch.float32 and info.kind.requires_grad and info.leaf and not info.view \
            and torch.is_autocast_cache_enabled()
        if keep:
            cached = self.autocast_cache.get(info.index)
            if cached is not None:
                return cached
        operator = self.session.operator(torch.ops.aten.to.dtype)
        self._autocast_off += 1
        try:
            cast = self.call(operator, (value, target), {}, CACHED_CAST if keep else CAST)
        finally:
            self._autocast_off -= 1
        if keep:
            self.autocast_cache[info.index] = cast
        else:
            temporaries.append(cast)
        return cast

    def clear_autocast_cache(self) -> None:
        """The outermost autocast region ended: frees its casts of weights."""
        self.autocast_cache.clear()

    def _casts_inside(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: List[Info]) -> bool:
        """Whether a composite calls operators that have an autocast rule."""
        table = self.session.casts_inside
        key = (operator, tuple((info.kind.dtype, len(info.kind.shape)) for info in infos))
        answer = table.get(key)
        if answer is None:
            answer = False
            if operator.device is None and not operator.reads and not operator.writes and not operator.copies:
                self._probing = []
                stand_ins = [info.kind.stand_in() for info in infos]
                new_args, new_kwargs = substituted(args, kwargs, stand_ins)
                try:
                    self._inside(operator.open, new_args, new_kwargs)
                except Exception:  # noqa: BLE001 - the call itself will raise the error
                    pass
                answer = any(name in POLICIES for name in self._probing)
                self._probing = None
            table[key] = answer
        return answer

    def _probe_call(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        assert self._probing is not None
        self._probing.append(operator.qualified)
        if operator.composite and operator.qualified not in POLICIES:
            return self._inside(operator.open, args, kwargs)
        return operator.overload(*args, **kwargs)
