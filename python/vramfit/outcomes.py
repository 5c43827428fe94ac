"""What a call would return. The operator runs once on stand-ins, and the outcome is cached for equal calls.

PyTorch's meta kernels are slow, since many are written in Python. A network calls the same few dozen operators on the same few
dozen shapes again and again, so each distinct call runs only once.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch._prims_common import suggest_memory_format

from .assumptions import LARGEST, Assumed, mask, stand_ins
from .errors import CaptureError
from .operators import Operator
from .rules import contiguous_stride, recurrent, shape_of
from .tensors import META, Info, Kind, Kinds, numel, without_autograd

NONE, SAME, ALIAS, NEW, VALUE, REAL = range(6)
SINGLE, LIST, TUPLE = range(3)
LARGEST_DENSE = 1 << 25
# Packed sequences: the batch size at each time step, or the lengths, are read on the host.
LENGTHS_ON_HOST = ("aten::_pack_padded_sequence", "aten::_pad_packed_sequence")
_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv_transpose", "aten::convolution", "aten::_convolution")

Item = Tuple[Any, ...]


class Outcome:
    """The results of a call: each is new, a view of an argument, or an argument itself."""

    __slots__ = ("form", "items", "casts", "decides", "values")

    def __init__(self, form: int, items: List[Item]) -> None:
        self.form = form
        self.items = items
        # Whether new results are integers or booleans, on whose values the model's way may depend.
        self.decides = any(item[0] == NEW and not item[1].dtype.is_floating_point and not item[1].dtype.is_complex for item in items)
        # Assumed values of new results, if the call was tried out.
        self.values: Optional[List[Any]] = None
        self.casts: Optional[bool] = None

    def total(self) -> int:
        """The total number of elements in new results."""
        return sum(numel(item[1].shape) for item in self.items if item[0] == NEW)


def replace_tensors(value: Any, replacements: Any) -> Any:
    """Arguments with each tensor replaced by the next replacement, in order."""
    if isinstance(value, torch.Tensor):
        return next(replacements)
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (int, float)):
        return [replace_tensors(item, replacements) for item in value]
    return value


def substituted(args: Sequence[Any], kwargs: Dict[str, Any], tensors: Sequence[torch.Tensor]) -> Tuple[List[Any], Dict[str, Any]]:
    """The arguments of a call with its tensors replaced."""
    following = iter(tensors)
    new_args = [replace_tensors(value, following) for value in args]
    return new_args, {name: replace_tensors(value, following) for name, value in kwargs.items()}


def deciding(operator: Operator, infos: Sequence[Info]) -> Sequence[Info]:
    """The arguments whose values determine the size of the result."""
    if operator.qualified.startswith("aten::index"):
        return [info for info in infos[1:] if info.kind.dtype in (torch.bool, torch.uint8)]
    if operator.qualified.startswith(("aten::masked_select", "aten::repeat_interleave.self", "aten::_pack_padded_sequence")):
        return infos[1:]
    return infos


class Outcomes:
    """A cache of outcomes."""

    def __init__(self, kinds: Kinds, share: Optional[float] = None) -> None:
        self.kinds = kinds
        self.share = share
        self.assumed_values = Assumed.EXPECTED
        self.table: Dict[Any, Outcome] = {}

    def get(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info],
        tensors: Sequence[torch.Tensor], where: Callable[[], str],
    ) -> Outcome:
        """The outcome of a call with these arguments."""
        outcome = self.table.get(key)
        if outcome is not None:
            return outcome
        shape = shape_of(operator.qualified, args, kwargs, [info.kind for info in infos])
        if shape is not None:
            needs = torch.is_grad_enabled() and any(info.kind.requires_grad for info in infos)
            kind = self.kinds.get(infos[0].kind.dtype, shape, contiguous_stride(shape), needs)
            outcome = self.table[key] = Outcome(SINGLE, [(NEW, kind)])
            return outcome
        recurrent_results = recurrent(operator.qualified, args, [info.kind for info in infos])
        if recurrent_results is not None:
            needs = torch.is_grad_enabled() and any(info.kind.requires_grad for info in infos)
            # Autocast runs them in float16, whatever its own type is.
            is_cast = operator.qualified.endswith(".data") and torch.is_autocast_enabled("cuda")
            dtype = torch.float16 if is_cast else infos[0].kind.dtype
            items: List[Item] = [(NEW, self.kinds.get(dtype, shape, stride, needs)) for shape, stride in recurrent_results]
            outcome = Outcome(TUPLE, items)
            if not is_cast:
                self.table[key] = outcome
            return outcome
        if operator.dynamic and deciding(operator, infos):
            return self._dense(operator, args, kwargs, infos, tensors, where)
        try:
            outcome = self._on_meta(operator, args, kwargs, [info.kind for info in infos])
        except CaptureError:
            raise
        except Exception as problem:
            if not self._needs_values(problem):
                raise
            return self._dense(operator, args, kwargs, infos, tensors, where)
        self.table[key] = outcome
        return outcome

    @staticmethod
    def _needs_values(problem: Exception) -> bool:
        text = str(problem)
        return isinstance(problem, NotImplementedError) or "data-dependent" in text or "data dependent" in text \
            or " meta " in text.lower() or "not implemented" in text.lower() \
            or type(problem).__name__.startswith(("DataDependent", "DynamicOutputShape"))

    def _on_meta(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Outcome:
        if operator.writes:
            plain = [self.kinds.get(kind.dtype, kind.shape, kind.stride, False) for kind in kinds]
            stand_ins = [kind.stand_in() for kind in plain]
        else:
            stand_ins = [kind.stand_in() for kind in kinds]
        new_args, new_kwargs = substituted(args, kwargs, stand_ins)
        if operator.device is not None:
            name = operator.arguments[operator.device]
            if operator.device < len(new_args):
                new_args[operator.device] = META
            else:
                new_kwargs[name] = META
        result = operator.overload(*new_args, **new_kwargs)
        if operator.qualified.startswith(_CONVOLUTIONS) and isinstance(result, torch.Tensor):
            result = self._as_cudnn_lays_out(result, stand_ins)
        outcome = self.describe(operator, result, stand_ins)
        if operator.qualified == "aten::_native_multi_head_attention":
            # The meta kernel returns an empty tensor for attention weights that were not requested.
            outcome.items = [item if item[0] != NEW or item[1].shape != (0,) else (NONE,) for item in outcome.items]
        return outcome

    @staticmethod
    def _as_cudnn_lays_out(result: torch.Tensor, stand_ins: Sequence[torch.Tensor]) -> torch.Tensor:
        """cuDNN (and the CPU's library) return a channels-last result for channels-last arguments; meta kernels do not."""
        wanted = {4: torch.channels_last, 5: torch.channels_last_3d}.get(result.dim())
        if wanted is None or not any(suggest_memory_format(tensor) is wanted for tensor in stand_ins[:2] if tensor.dim() == result.dim()):
            return result
        return torch.empty_like(result, memory_format=wanted).requires_grad_(result.requires_grad)

    def describe(self, operator: Operator, result: Any, arguments: Sequence[torch.Tensor]) -> Outcome:
        """How the results relate to the arguments."""
        if isinstance(result, (list, tuple)):
            form = TUPLE if isinstance(result, tuple) else LIST
            return Outcome(form, [self._item(item, arguments) for item in result])
        return Outcome(SINGLE, [self._item(result, arguments)])

    def _item(self, result: Any, arguments: Sequence[torch.Tensor]) -> Item:
        if result is None:
            return (NONE,)
        if not isinstance(result, torch.Tensor):
            return (VALUE, result)
        for at, argument in enumerate(arguments):
            if result is argument:
                return (SAME, at)
        kind = self.kinds.of(result)
        if result.layout is torch.strided and arguments:
            address = result.untyped_storage()._cdata
            for at, argument in enumerate(arguments):
                if argument.layout is torch.strided and argument.untyped_storage()._cdata == address:
                    return (ALIAS, kind, at, result.storage_offset() - argument.storage_offset())
        return (NEW, kind)

    def _dense(
        self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info],
        tensors: Sequence[torch.Tensor], where: Callable[[], str],
    ) -> Outcome:
        """The outcome of a real run on the CPU, with assumed values for unknown ones."""
        if sum(numel(info.kind.shape) for info in infos) > LARGEST_DENSE:
            chosen = self._chosen_on_meta(operator, args, infos, tensors)
            if chosen is not None:
                return chosen
            raise CaptureError(
                f"{where()}: {operator.name} has no shape rule in this PyTorch and its arguments are too large to try it out",
                "capture with a smaller example",
            )
        if operator.dynamic:
            given = stand_ins(operator, args, kwargs, infos, tensors, deciding(operator, infos), self.assumed_values)
        else:
            given = [tensor if info.known and not operator.writes else info.kind.zeros() for info, tensor in zip(infos, tensors)]
        new_args, new_kwargs = substituted(args, kwargs, given)
        with without_autograd():
            result = operator.overload(*new_args, **new_kwargs)
        outcome = self.describe(operator, result, given)
        if operator.dynamic:
            outcome.values = _integers(result, outcome)
        if operator.qualified in LENGTHS_ON_HOST:
            outcome.items[1] = (REAL, result[1])
        if torch.is_grad_enabled() and any(info.kind.requires_grad for info in infos):
            outcome.items = [self._with_grad(item) for item in outcome.items]
        return outcome

    def _chosen_on_meta(
        self, operator: Operator, args: Sequence[Any], infos: Sequence[Info], tensors: Sequence[torch.Tensor],
    ) -> Optional[Outcome]:
        """What known masks choose of a tensor whose values are unknown: the positions of their true elements choose the same."""
        if operator.qualified != "aten::index.Tensor" or infos[0].known or not all(info.known for info in infos[1:]):
            return None
        positions: List[Optional[torch.Tensor]] = []
        for index in replace_tensors(args[1], iter(tensors[1:])):
            is_mask = index is not None and index.dtype in (torch.bool, torch.uint8)
            positions.extend(index.nonzero(as_tuple=True) if is_mask else (index,))
        stand_in = infos[0].kind.stand_in()
        result = operator.overload(stand_in, [None if index is None else index.to(META) for index in positions])
        return self.describe(operator, result, [stand_in])

    def assumed(
        self, outcome: Outcome, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info], tensors: Sequence[torch.Tensor],
    ) -> Optional[List[Any]]:
        """Assumed values of the integers and booleans that a call on unknown floats returns."""
        if outcome.values is not None or not outcome.decides or operator.writes or not infos:
            return outcome.values
        if outcome.total() + sum(numel(info.kind.shape) for info in infos) > LARGEST:
            return None
        if self.share is not None and outcome.form == SINGLE and outcome.items[0][1].dtype is torch.bool:
            return [mask(outcome.items[0][1].shape, self.share)]
        new_args, new_kwargs = substituted(args, kwargs, stand_ins(operator, args, kwargs, infos, tensors, infos, self.assumed_values))
        try:
            with without_autograd():
                result = operator.overload(*new_args, **new_kwargs)
        except Exception:  # noqa: BLE001 - the values are not of a kind that the operator takes: they stay unknown
            return None
        values = _integers(result, outcome)
        for item, value in zip(outcome.items, values):
            if value is not None and (tuple(value.shape) != item[1].shape or value.dtype is not item[1].dtype):
                return None
        return values

    def _with_grad(self, item: Item) -> Item:
        if item[0] in (ALIAS, NEW) and item[1].dtype.is_floating_point:
            kind = item[1]
            return (item[0], self.kinds.get(kind.dtype, kind.shape, kind.stride, True)) + item[2:]
        return item


def _integers(result: Any, outcome: Outcome) -> List[Any]:
    """The new results of a real run that are integers or booleans; None for the others."""
    results = result if isinstance(result, (list, tuple)) else (result,)
    return [
        value if item[0] == NEW and not item[1].dtype.is_floating_point and not item[1].dtype.is_complex else None
        for item, value in zip(outcome.items, results)
    ]
