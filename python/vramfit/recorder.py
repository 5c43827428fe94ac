"""One recording: every ATen call of a step as PyTorch's dispatcher sees it, before autograd, autocast and decompositions.

At PyTorch's PreDispatch key, where ``torch.export`` records its training graphs too, every call has its overload chosen and its
arguments matched to the schema. No call runs on a GPU, and most do not run at all: floating-point tensors are on the meta device
and get their shapes from `outcomes`. Integers, booleans and small constants have real values on the CPU, so that branches on them
are taken as in training.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from contextlib import nullcontext
from types import FrameType
from typing import Any, Callable, ContextManager, Dict, FrozenSet, Iterator, List, Optional, Sequence, Tuple

import torch
from torch._ops import OpOverload
from torch.nn import functional

from .assumptions import Assumed, bounds, share_of, spread
from .autocast import FLOAT32_AND_BACK, POLICIES
from .casting import Casting
from .dtypes import refuse
from .operators import Operator, base_name, encode_word, opens_here
from .outcomes import ALIAS, LENGTHS_ON_HOST, NEW, REAL, SAME, SINGLE, TUPLE, VALUE, Outcome, deciding, substituted
from .rules import LENGTHS, lengths_as_numbers
from .session import Session, is_left
from .tensors import CPU, HOST, LEAF, REQUIRES_GRAD, VIEW, Info, Kind, Storage, numel, without_autograd
from .transforms import builds_a_graph, hand_on, in_a_transform

_PRE = torch._C.DispatchKey.PreDispatch
_include = torch._C._dispatch_tls_set_dispatch_key_included
_DisableDispatcher = torch._C._DisablePythonDispatcher
_EnableDispatcher = torch._C._EnablePythonDispatcher
_DEFAULT = object()
_NOTHING: FrozenSet[str] = frozenset()
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_REAL_FLOATS = 1 << 20
# Computed from known values: floats, and those made from booleans, such as attention masks.
_REAL_RESULTS = 1 << 22
_REAL_MASKS = 1 << 25
_REAL_INTEGERS = 1 << 27
# Random numbers between 0 and 1, unless a script asks for others.
_UNIFORM = ("aten::rand", "aten::uniform_")


class Recorder(Casting):
    """The calls, frees and regions of one forward pass and loss, in the order in which they happened."""

    # Whether random numbers that decide get their extremes, so that an answer has bounds.
    bounds_random = True
    # Whether results are computed from known values of tensors that require grad.
    computes_trained = True

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.steps: List[Tuple[Any, ...]] = []
        self.rows: List[Tuple[Kind, int, int, int]] = []
        self.infos: Dict[int, Info] = {}
        self.replacements: Dict[int, torch.Tensor] = {}
        self.constants: List[int] = []
        # What the backwards of custom autograd functions call.
        self.backwards: List[Any] = []
        # Reasons why another run of the model may call other operators, each only once.
        self.causes: List[str] = []
        # Whether one of them is an assumed value, so that another assumption may lead elsewhere.
        self.assumes = False
        # Where the model gives one of its weights another type, which later steps find.
        self.recast: Optional[str] = None
        self.active = False
        self.busy = False
        # How many calls in layers of torch.func.grad are under way. These have real graphs, in which all stand-ins are of one kind.
        self.layered = 0
        self._storages = 0
        self._handlers: Dict[OpOverload, Callable[..., Any]] = {}
        self._owner = threading.get_ident()
        # The grad mode in which an opened composite was called: its C++ code may change it unseen by Python.
        self._opened_with_grad: Optional[bool] = None

    # -- tensors ------------------------------------------------------------------------------------------------------

    def adopt(
        self, tensor: torch.Tensor, kind: Kind, storage: Optional[Storage], offset: int, host: bool, *, leaf: bool = False,
        view: bool = False, real: bool = False, known: bool = False,
    ) -> Info:
        """Gives a tensor its number, and records when Python releases it."""
        if storage is None:
            storage = Storage(self._storages, known)
            self._storages += 1
        index = len(self.rows)
        info = Info(index, kind, storage, offset, host, leaf or not kind.requires_grad, view, real)
        flags = (REQUIRES_GRAD if kind.requires_grad else 0) | (LEAF if info.leaf else 0) | (HOST if host else 0) | (VIEW if view else 0)
        self.rows.append((kind, storage.index, offset, flags))
        address = id(tensor)
        self.infos[address] = info
        info.reference = weakref.ref(tensor, lambda _: self._released(address, index))
        return info

    def _released(self, address: int, index: int) -> None:
        info = self.infos.get(address)
        if info is not None and info.index == index:
            del self.infos[address]
        if self.active:
            self.free(index)

    def free(self, index: int) -> None:
        """Records that Python released a tensor."""
        steps = self.steps
        if steps and steps[-1][0] == "free":
            steps[-1][1].append(index)
        else:
            steps.append(("free", [index]))

    def close(self) -> None:
        """Drops what is needed only while the pass runs, and would keep this object alive in a cycle."""
        self._handlers.clear()
        self.infos.clear()
        self.autocast_cache.clear()

    def info_of(self, tensor: torch.Tensor) -> Info:
        """The record of a tensor. A tensor not seen before is a constant of the model, or was left in a cache by an earlier pass."""
        info = self.infos.get(id(tensor))
        if info is not None:
            return info
        replacement = self.replacements.get(id(tensor))
        if replacement is not None:
            return self.infos[id(replacement)]
        real = tensor.device.type == "cpu" and tensor.layout is torch.strided
        from_before = is_left(tensor)
        host = tensor.device.type == "cpu" and not from_before
        if from_before:
            self.cause("the model finds tensors that an earlier pass left there (a cache); a training's first step, which makes them, may differ from the recorded one")
        kind = self.session.kinds.of(tensor)
        info = self.adopt(tensor, kind, None, int(tensor.storage_offset()) if real else 0, host, leaf=tensor.is_leaf, real=real, known=real)
        self.constants.append(info.index)
        return info

    def where(self) -> str:
        """The current line of the model, as text."""
        return self.session.sources.text(self.session.sources.here())

    def assume(self, text: str) -> None:
        """Records that a value was assumed on which the model's way depends."""
        self.assumes = True
        self.cause(text)

    def assume_size(self, text: str, values: str) -> None:
        """Records that a size follows from such values."""
        self.assume(f"{text}; {values}")

    def cause(self, text: str) -> None:
        """Records why another run may differ from this one."""
        if text not in self.causes:
            self.causes.append(text)

    def follows(self, source: int, given: FrozenSet[str], what: str = "the way on") -> None:
        """Records that something depends on values of the example."""
        if given and not self.session.sources.asserts(source):
            names = ", ".join(f"`{name}`" for name in sorted(given))
            self.cause(f"{self.session.sources.text(source)}: {what} depends on the values of {names}; the example's were followed")

    # -- dispatch -----------------------------------------------------------------------------------------------------

    def handler(self, overload: OpOverload) -> Callable[..., Any]:
        """Called by PyTorch's dispatcher instead of the operator."""
        handler = self._handlers.get(overload)
        if handler is None:
            operator = self.session.operator(overload)

            def handler(*args: Any, **kwargs: Any) -> Any:
                if in_a_transform():
                    builds = builds_a_graph()
                    self.layered += builds
                    try:
                        return hand_on(self, overload, args, kwargs)
                    finally:
                        self.layered -= builds
                _include(_PRE, False)
                before, self.busy = self.busy, True
                try:
                    with _DisableDispatcher(), torch._C.DisableTorchFunction():
                        if self._probing is not None:
                            return self._probe_call(operator, args, kwargs)
                        return self.call(operator, args, kwargs)
                finally:
                    self.busy = before
                    _include(_PRE, True)

            self._handlers[overload] = handler
        return handler

    @staticmethod
    def recording() -> bool:
        """Whether calls are being recorded."""
        return torch._C._dispatch_tls_is_dispatch_key_included(_PRE)

    def paused(self) -> "_Paused":
        """A context in which calls run normally and are not recorded."""
        return _Paused()

    def scalar(self, value: Any, dtype: Optional[torch.dtype]) -> torch.Tensor:
        """A number as a host tensor."""
        with self.paused():
            number = torch.tensor(value, dtype=dtype, device="cpu")
        info = self.adopt(number, self.session.kinds.of(number), None, 0, True, real=True, known=True)
        pseudo = self.session.pseudo("vramfit.scalar", ["value", "dtype"])
        self.steps.append(("call", pseudo, [value, encode_word(number.dtype)], [info.name], self.session.sources.here(), 0))
        return number

    def _inside(self, run: Callable[..., Any], args: Sequence[Any], kwargs: Dict[str, Any]) -> Any:
        """Runs a composite's own code, so that its inner calls are recorded."""
        _include(_PRE, True)
        try:
            with _EnableDispatcher():
                return run(*args, **kwargs)
        finally:
            _include(_PRE, False)

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], flag: int = 0) -> Any:
        """Records one call and returns its results."""
        policy = None
        temporaries: List[torch.Tensor] = []
        given = args[0].dtype if args and isinstance(args[0], torch.Tensor) else None
        autocast = not self._autocast_off and torch.is_autocast_enabled("cuda")
        if autocast:
            policy = POLICIES.get(operator.qualified)
            if policy is not None:
                operator, args, kwargs = self._cast_arguments(policy, operator, args, kwargs, temporaries)
        tensors: List[torch.Tensor] = []
        infos: List[Info] = []
        key, encoded = self._read_arguments(operator, args, kwargs, tensors, infos)
        if operator.opened or opens_here(operator, encoded, infos) \
                or (autocast and policy is None and operator.composite and self._casts_inside(operator, args, kwargs, infos)):
            self._autocast_off += policy is not None
            before, self._opened_with_grad = self._opened_with_grad, torch.is_grad_enabled()
            try:
                result = self._inside(operator.open, args, kwargs)
            finally:
                self._autocast_off -= policy is not None
                self._opened_with_grad = before
        elif self._opened_with_grad not in (None, torch.is_grad_enabled()):
            self.steps.append(("grad", torch.is_grad_enabled()))
            result = self._run(key, operator, args, kwargs, tensors, infos, encoded, flag)
            self.steps.append(("grad", self._opened_with_grad))
        else:
            result = self._run(key, operator, args, kwargs, tensors, infos, encoded, flag)
        if policy == FLOAT32_AND_BACK and isinstance(result, torch.Tensor) and result.dtype is not given:
            result = self.call(self.session.operator(torch.ops.aten.to.dtype), (result, given), {})
        if temporaries:
            args, kwargs = (), {}
            tensors.clear()
            while temporaries:
                temporaries.pop()
        return result

    def _read_arguments(
        self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info],
    ) -> Tuple[Any, List[Any]]:
        """The arguments as a cache key for outcomes, and in the file's encoding."""
        key: List[Any] = [operator, torch.is_grad_enabled()]
        encoded: List[Any] = []
        for value in args:
            part, shown = self._read(value, tensors, infos)
            key.append(part)
            encoded.append(shown)
        given = len(args)
        if not kwargs:
            key.extend([_DEFAULT] * (operator.count - given))
            encoded.extend(operator.defaults[given:])
            return tuple(key), encoded
        for at in range(given, operator.count):
            value = kwargs.get(operator.arguments[at], _DEFAULT)
            if value is _DEFAULT:
                key.append(_DEFAULT)
                encoded.append(operator.defaults[at])
                continue
            part, shown = self._read(value, tensors, infos)
            key.append(part)
            encoded.append(shown)
        return tuple(key), encoded

    def _read(self, value: Any, tensors: List[torch.Tensor], infos: List[Info]) -> Tuple[Any, Any]:
        if value is None:
            return None, None
        kind = type(value)
        if kind is int:
            return value, value
        if isinstance(value, torch.Tensor):
            info = self.infos.get(id(value)) or self.info_of(value)
            tensors.append(value)
            infos.append(info)
            return info.kind, info.name
        if kind is bool or kind is float:
            return (kind, value), value
        if kind is list or kind is tuple:
            parts = [self._read(item, tensors, infos) for item in value]
            return tuple(part for part, _ in parts), tuple(shown for _, shown in parts)
        if kind is torch.device:
            return value, {"device": "cpu" if value.type == "cpu" else "cuda"}
        if kind is complex:
            return value, {"complex": [value.real, value.imag]}
        try:
            hash(value)
        except TypeError:
            return id(value), encode_word(value)
        return value, encode_word(value)

    # -- running ------------------------------------------------------------------------------------------------------

    def _run(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor],
        infos: List[Info], encoded: List[Any], flag: int,
    ) -> Any:
        session = self.session
        source = session.sources.here()
        if operator.check is not None:
            refuse(operator.check, operator.name, infos, self.where)
        given = _given(operator, infos)
        assumed, known_all, on_host = False, not self.layered or operator.reads, True
        computes_trained = self.computes_trained or not torch.is_grad_enabled()
        for info in infos:
            assumed = assumed or info.storage.assumed
            known_all = known_all and info.real and info.storage.known and (computes_trained or not info.kind.requires_grad)
            on_host = on_host and info.host
        sizes = operator.sizes and operator.is_sized_by_values(args, kwargs)
        if sizes or operator.reads:
            self._note_assumption(operator, source, infos, tensors)
        if given and not assumed:
            if operator.reads and not _asks_for_bad_values():
                self.follows(source, given)
            elif sizes:
                self.follows(source, _given(operator, deciding(operator, infos)), f"the size of the result of {operator.name}")
        if operator.copies:
            result, known, host = self._copy(key, operator, args, kwargs, tensors, infos)
        elif operator.device is not None:
            result, known, host = self._make(key, operator, args, kwargs, tensors, infos)
        elif operator.reads and not known_all:
            result, known, host = self._assumed(operator, infos), True, False
        else:
            target = next(_written(operator, args, kwargs), None) if operator.writes else None
            host = on_host if target is None else self.info_of(target).host
            if operator.finite is not None and not infos[0].known and numel(infos[0].kind.shape) <= _REAL_INTEGERS:
                result = torch.full(infos[0].kind.shape, operator.finite, dtype=torch.bool, device="cpu")
                known = True
            elif operator.reshapes:
                result, known = self._reshape_in_place(operator, args, kwargs, tensors, infos), infos[0].known
            elif known_all and self._worth_running(key, operator, args, kwargs, tensors, infos):
                result = self._really(key, operator, args, kwargs, tensors, infos)
                known = True
            else:
                result = session.outcomes.get(key, operator, args, kwargs, infos, tensors, self.where)
                known = False
        if isinstance(result, Outcome):
            if operator.random and host:
                self.not_drawn(operator, kwargs, result, infos)
            assumed_values = session.outcomes.assumed(result, operator, args, kwargs, infos, tensors)
            built, names = self._build(result, operator, tensors, infos, host, given, assumed_values, bounds(operator, args, kwargs, infos))
        else:
            random = self.bounds_random and (operator.random or (any(info.storage.random for info in infos) and not _certain(operator, args)))
            if operator.random and self.bounds_random:
                _take_extreme(operator, result, session.assumed)
            built, names = result, self._register(result, tensors, infos, host, known, random, assumed, given, operator)
            if random and operator.reads:
                self.assume(f"{session.sources.text(source)}: a random number decides; the largest was assumed")
        lengths = LENGTHS.get(operator.qualified)
        if lengths is not None and len(infos) > lengths and infos[lengths].known:
            encoded[lengths] = lengths_as_numbers(operator.qualified, tensors[lengths].tolist())
        self.steps.append(("call", session.number(operator), encoded, names, source, flag))
        self.called(operator, args, kwargs, infos, names)
        if operator.writes and infos:
            self._after_write(operator, args, kwargs, infos, known)
        return built

    def called(
        self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info], names: Sequence[Optional[str]],
    ) -> None:
        """Called when a call has been recorded, with its arguments and the names of its results."""

    def drawing(self, operator: Operator, kwargs: Dict[str, Any], host: bool) -> ContextManager[None]:
        """A context in which a call really runs, on the host or as if on the GPU: it may draw random numbers."""
        return nullcontext()

    def not_drawn(self, operator: Operator, kwargs: Dict[str, Any], outcome: Outcome, infos: Sequence[Info]) -> None:
        """Called for a call on the host that does not run and would have drawn random numbers."""

    def _really(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info],
    ) -> Any:
        """Runs a call on known values. Where the CPU has no kernel for a dtype that CUDA has one for, it runs in double precision."""
        try:
            with without_autograd(), self.drawing(operator, kwargs, all(info.host for info in infos)):
                return operator.overload(*args, **kwargs)
        except NotImplementedError:
            if operator.writes:
                raise
        outcome = self.session.outcomes.get(key, operator, args, kwargs, infos, tensors, self.where)
        wide = [tensor if tensor.dtype is torch.bool else tensor.to(torch.float64) for tensor in tensors]
        with without_autograd():
            new_args, new_kwargs = substituted(args, kwargs, wide)
            result = operator.overload(*new_args, **new_kwargs)
        if outcome.form != SINGLE or outcome.items[0][0] != NEW:
            raise NotImplementedError(f"{operator.name} runs on no dtype of this CPU")
        return result.to(outcome.items[0][1].dtype)

    def _worth_running(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info],
    ) -> bool:
        """Whether a call on known values may really run: its results must not be too large."""
        if operator.dynamic or operator.reads or operator.writes:
            return True
        largest = max((numel(info.kind.shape) for info in infos), default=0)
        if largest < 512:
            return True
        outcome = self.session.outcomes.get(key, operator, args, kwargs, infos, tensors, self.where)
        for item in outcome.items:
            if item[0] == NEW:
                masks = any(info.kind.dtype is torch.bool for info in infos)
                limit = (_REAL_MASKS if masks else _REAL_RESULTS) if item[1].dtype.is_floating_point else _REAL_INTEGERS
                if numel(item[1].shape) > limit:
                    return False
        return True

    def _copy(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info],
    ) -> Tuple[Any, bool, bool]:
        """``to`` and ``_to_copy``: the device may change, which the stand-ins on this machine do not show."""
        named = dict(zip(operator.arguments, args))
        named.update(kwargs)
        info = infos[0]
        device = named.get("device")
        if device is not None:
            host = device.type == "cpu"
        elif "other" in named:
            host = infos[1].host
        else:
            host = info.host
        if host != info.host and not operator.qualified.startswith("aten::_to_copy"):
            dtype = named["other"].dtype if "other" in named else named.get("dtype")
            operator = self.session.operator(torch.ops.aten._to_copy.default)
            kwargs = {"dtype": dtype, "memory_format": named.get("memory_format")}
            args = [named["self"]]
            del tensors[1:], infos[1:]
            key = (operator, torch.is_grad_enabled(), info.kind, dtype, kwargs["memory_format"], "moved")
        if info.known and (self.computes_trained or not info.kind.requires_grad or not torch.is_grad_enabled()):
            new_args, new_kwargs = list(args), dict(kwargs)
            self._set_device(operator, new_args, new_kwargs, CPU)
            with without_autograd():
                return operator.overload(*new_args, **new_kwargs), True, host
        return self.session.outcomes.get(key, operator, args, kwargs, infos, tensors, self.where), False, host

    @staticmethod
    def _set_device(operator: Operator, args: List[Any], kwargs: Dict[str, Any], device: torch.device) -> None:
        if operator.device is not None and (operator.device < len(args) or "device" in kwargs or operator.positional <= operator.device):
            if operator.device < len(args):
                args[operator.device] = device
            else:
                kwargs["device"] = device
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False

    def _make(
        self, key: Any, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info],
    ) -> Tuple[Any, bool, bool]:
        """Factories: small tensors and integer tensors get real values."""
        assert operator.device is not None
        device = args[operator.device] if operator.device < len(args) else kwargs.get("device")
        if device is None:
            host = infos[0].host if infos else True
        elif operator.like and infos and device == tensors[0].device:
            # The device of the tensor it is modelled on: a stand-in with values is in this machine's memory, whatever its device.
            host = infos[0].host
        else:
            host = device.type == "cpu"
        if kwargs.get("pin_memory"):
            kwargs = dict(kwargs, pin_memory=False)
        outcome = self.session.outcomes.get(key, operator, args, kwargs, infos, tensors, self.where)
        item = outcome.items[0]
        if outcome.form != SINGLE or item[0] != NEW:
            return outcome, False, host
        limit = _REAL_FLOATS if item[1].dtype.is_floating_point or item[1].dtype.is_complex else _REAL_INTEGERS
        if numel(item[1].shape) > limit or self.layered:
            return outcome, False, host
        # Only the dtype of the tensor that `new_zeros` and the like are called on matters.
        template = operator.like and not operator.qualified.split(".")[0].endswith("_like")
        real = [tensor if info.known else torch.empty(0, dtype=info.kind.dtype, device=CPU) if template else info.kind.zeros() for tensor, info in zip(tensors, infos)]
        new_args, new_kwargs = substituted(args, kwargs, real)
        self._set_device(operator, new_args, new_kwargs, CPU)
        with without_autograd(), self.drawing(operator, kwargs, host):
            result = operator.overload(*new_args, **new_kwargs)
            if operator.empty:
                result.zero_()
        return result, True, host

    def _assumed(self, operator: Operator, infos: List[Info]) -> Any:
        """A value that Python reads, though it depends on the weights."""
        kind = infos[0].kind
        if operator.qualified == "aten::is_nonzero" and _asks_for_bad_values():
            return False
        if operator.qualified in ("aten::item", "aten::_local_scalar_dense") and kind.dtype.is_floating_point:
            where = self.where()
            self.assume(f"{where}: reads a value that depends on the weights; 1.0 was assumed")
            return 0.0 if self.session.assumed is Assumed.LEAST else 1.0
        return operator.qualified == "aten::is_nonzero" and self.session.assumed is not Assumed.LEAST

    def assumed_values(self, kind: Kind) -> torch.Tensor:
        """All values of a tensor that Python reads, though they depend on the weights."""
        return spread(kind.shape, kind.dtype, 0, self.session.assumed)

    def _note_assumption(self, operator: Operator, source: int, infos: List[Info], tensors: List[torch.Tensor]) -> None:
        """Records that a size or a decision follows from assumed values."""
        some = deciding(operator, infos)
        if not any(info.storage.assumed or not info.known for info in some) or self.session.sources.asserts(source):
            return
        where = self.session.sources.text(source)
        if operator.reads:
            if operator.qualified not in ("aten::item", "aten::_local_scalar_dense") or infos[0].known:
                if not _asks_for_bad_values():
                    what = f"a decision is taken on values that are computed from the weights ({operator.name})"
                    self.assume(f"{where}: {what}; evenly spread values were assumed")
            return
        share = share_of([tensor for tensor, info in zip(tensors, infos) if info in some and info.known])
        what = "evenly spread values were assumed" if share is None else f"a share of {share:.3g} was assumed"
        self.assume_size(f"{where}: the size of the result of {operator.name} depends on values that are computed from the weights", what)

    def _reshape_in_place(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], tensors: List[torch.Tensor], infos: List[Info]) -> Any:
        """``t_``, ``squeeze_`` and the like change the tensor object itself, which gets a new number."""
        tensor, old = tensors[0], infos[0]
        with without_autograd():
            operator.overload(*args, **kwargs)
        kind = self.session.kinds.of(tensor)
        del self.infos[id(tensor)]
        self.adopt(tensor, kind, old.storage, old.offset, old.host, leaf=old.leaf, view=True, real=old.real)
        return tensor

    # -- results ------------------------------------------------------------------------------------------------------

    def _build(
        self, outcome: Outcome, operator: Operator, tensors: List[torch.Tensor], infos: List[Info], host: bool, given: FrozenSet[str],
        assumed: Optional[List[Any]], between: Optional[Tuple[float, float]],
    ) -> Tuple[Any, List[Optional[str]]]:
        """Creates the result tensors that an outcome describes."""
        results: List[Any] = []
        names: List[Optional[str]] = []
        for at, item in enumerate(outcome.items):
            what = item[0]
            if what == NEW and assumed is not None and assumed[at] is not None:
                result = assumed[at]
                info = self.adopt(result, self.session.kinds.of(result), None, 0, host, real=True, known=True)
                info.storage.assumed = True
                names.append(info.name)
            elif what == NEW:
                result = item[1].result()
                info = self.adopt(result, item[1], None, 0, host)
                info.storage.bounds = between
                names.append(info.name)
            elif what == ALIAS:
                base = infos[item[2]]
                result = item[1].result()
                offset = base.offset + item[3]
                info = self.adopt(result, item[1], base.storage, offset, base.host, view=True)
                info.detached = base.detached or operator.detaches
                names.append(info.name)
            elif what == SAME:
                result = tensors[item[1]]
                names.append(infos[item[1]].name)
            elif what == VALUE:
                result = item[1]
            elif what == REAL:
                result = item[1]
                info = self.adopt(result, self.session.kinds.of(result), None, 0, True, real=True, known=True)
                info.storage.given = given
                names.append(info.name)
            else:
                result = None
                names.append(None)
            results.append(result)
        if outcome.form == SINGLE:
            return results[0], names
        return (tuple(results) if outcome.form == TUPLE else results), names

    def _register(
        self, result: Any, tensors: List[torch.Tensor], infos: List[Info], host: bool, known: bool, random: bool, assumed: bool,
        given: FrozenSet[str], operator: Operator,
    ) -> List[Optional[str]]:
        """Gives numbers to the results of a call that really ran."""
        names: List[Optional[str]] = []
        for at, item in enumerate(result if isinstance(result, (list, tuple)) else (result,)):
            if item is None:
                names.append(None)
            elif isinstance(item, torch.Tensor):
                info = self.infos.get(id(item))
                if info is None:
                    has_lengths = at == 1 and operator.qualified in LENGTHS_ON_HOST
                    info = self._register_one(item, tensors, infos, host or has_lengths, known)
                info.storage.random |= random
                info.storage.assumed |= assumed
                info.storage.given |= given
                info.detached |= operator.detaches
                names.append(info.name)
        return names

    def _register_one(self, item: torch.Tensor, tensors: Sequence[torch.Tensor], infos: Sequence[Info], host: bool, known: bool) -> Info:
        kind = self.session.kinds.of(item)
        real = item.device.type == "cpu"
        if item.layout is torch.strided:
            address = item.untyped_storage()._cdata
            for tensor, info in zip(tensors, infos):
                if info.real and real and tensor.layout is torch.strided and tensor.untyped_storage()._cdata == address:
                    return self.adopt(item, kind, info.storage, int(item.storage_offset()), info.host, view=True, real=real)
        return self.adopt(item, kind, None, 0, host, real=real, known=known and real)

    def _after_write(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: List[Info], known: bool) -> None:
        """After an in-place call, the target's values may be unknown, and it may require a gradient."""
        if operator.reshapes:
            self.free(infos[0].index)
            return
        for tensor in _written(operator, args, kwargs):
            info = self.info_of(tensor)
            if not known:
                info.storage.known = False
            info.storage.bounds = None
            kind = info.kind
            can_require = kind.dtype.is_floating_point or kind.dtype.is_complex
            if not kind.requires_grad and torch.is_grad_enabled() and can_require and any(other.kind.requires_grad for other in infos):
                self._now_requires_grad(info)

    def _now_requires_grad(self, target: Info) -> None:
        """A result that requires grad was written into a tensor: the tensor and all its views require grad from now on.

        A detached tensor, as ``.data`` gives it, is no view to autograd: what it was taken from stays as it is.
        """
        for info in [target] if target.detached else list(self.infos.values()):
            kind = info.kind
            tensor = info.reference() if info.reference is not None else None
            if info.storage is target.storage and info.detached is target.detached and not kind.requires_grad and tensor is not None:
                info.kind = self.session.kinds.get(kind.dtype, kind.shape, kind.stride, True)
                info.leaf = False
                tensor.requires_grad_()


def _given(operator: Operator, infos: Sequence[Info]) -> FrozenSet[str]:
    """The inputs on whose values the results of a call depend."""
    if operator.finite is not None or (operator.device is not None and not operator.copies):
        return _NOTHING
    found = _NOTHING
    for info in infos:
        if info.storage.given:
            found |= info.storage.given
    return found


def _written(operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any]) -> Iterator[torch.Tensor]:
    """The tensors that a call writes into."""
    for at in operator.writes:
        target = args[at] if at < len(args) else kwargs.get(operator.arguments[at])
        for tensor in target if isinstance(target, (list, tuple)) else (target,):
            if isinstance(tensor, torch.Tensor):
                yield tensor


def _certain(operator: Operator, args: Sequence[Any]) -> bool:
    """Whether comparing a random number in 0..1 with this constant has only one outcome."""
    if operator.name.split(".")[1] not in ("lt", "le", "gt", "ge") or len(args) != 2 or not isinstance(args[1], (int, float)):
        return False
    return args[1] <= 0 or args[1] >= 1


def _take_extreme(operator: Operator, result: Any, assumed: Assumed) -> None:
    """Gives a single uniform random number its largest value, or its smallest for the least: a layer that is dropped at random is then
    kept, which takes most memory, or dropped."""
    if base_name(operator.qualified) in _UNIFORM and isinstance(result, torch.Tensor) and result.numel() == 1 and not result.is_meta:
        if result.is_floating_point():
            result.fill_(0.0 if assumed is Assumed.LEAST else 1 - torch.finfo(result.dtype).eps)


def _asks_for_bad_values() -> bool:
    """Whether torch.nn.functional itself reads the value, to refuse bad ones (a negative variance)."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == functional.__file__


class _Paused:
    """A context that switches recording off."""

    def __enter__(self) -> None:
        self._disabled = _DisableDispatcher()
        self._disabled.__enter__()
        self._was = torch._C._dispatch_tls_is_dispatch_key_included(_PRE)
        _include(_PRE, False)

    def __exit__(self, *_: Any) -> None:
        _include(_PRE, self._was)
        self._disabled.__exit__(None, None, None)
