"""What the model's Python code sees: tensors report the GPU as their device, though they are not on it.

A torch function mode intercepts PyTorch's functions. It answers queries about devices, replaces ``device="cuda"`` by the device
that represents it here, and records the few things that PyTorch's dispatcher does not see (``torch.tensor``, ``.data``,
``.tolist()``, changes of the grad mode).
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode


from .operators import encode_word
from .recorder import Recorder
from .tensors import CPU, META

_CUDA = torch.device("cuda", 0)
Handler = Callable[["FunctionMode", Any, Tuple[Any, ...], Dict[str, Any]], Any]
_HANDLERS: Dict[Any, Handler] = {}


def _handles(*functions: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for function in functions:
            _HANDLERS[function] = handler
        return handler
    return register


def as_device(value: Any) -> Optional[torch.device]:
    """The device that an argument means, or None."""
    if value is None or isinstance(value, torch.device):
        return value
    if isinstance(value, str):
        return torch.device(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return torch.device("cuda", value)
    return None


def standing_for(value: Any) -> Any:
    """The device of this machine that represents a device of the training machine."""
    device = as_device(value)
    if device is None:
        return value
    return CPU if device.type == "cpu" else META


class FunctionMode(TorchFunctionMode):
    """Active while the model runs."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._opened: List[Any] = []

    def __torch_function__(self, func: Any, _: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs or {})
        if kwargs:
            if kwargs.get("device") is not None:
                kwargs = dict(kwargs, device=standing_for(kwargs["device"]))
        else:
            kwargs = {}
        if type(func) is FunctionType:
            return self.open(func, args, kwargs)
        return func(*args, **kwargs)

    def open(self, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Runs a function written in Python with the mode on. A function that dispatches to the mode again runs with it off."""
        if self._opened and self._opened[-1] is func:
            return func(*args, **kwargs)
        self._opened.append(func)
        try:
            with self:
                return func(*args, **kwargs)
        finally:
            self._opened.pop()


Tensor = torch.Tensor


def _property(name: str) -> Any:
    return getattr(torch.Tensor, name)


@_handles(_property("device").__get__)
def _device(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> torch.device:
    return CPU if mode.recorder.info_of(args[0]).host else _CUDA


@_handles(_property("is_cuda").__get__)
def _is_cuda(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    return not mode.recorder.info_of(args[0]).host


@_handles(_property("is_cpu").__get__)
def _is_cpu(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    return mode.recorder.info_of(args[0]).host


@_handles(_property("is_meta").__get__)
def _is_meta(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    return False


@_handles(Tensor.get_device, torch.get_device)
def _get_device(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> int:
    return -1 if mode.recorder.info_of(args[0]).host else 0


@_handles(_property("is_leaf").__get__)
def _is_leaf(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    return mode.recorder.info_of(args[0]).leaf


@_handles(Tensor.to)
def _to(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    other = args[1] if len(args) > 1 else kwargs.get("other")
    if isinstance(other, Tensor):
        # The other's stand-in does not show its device: tensors with values are on the CPU, though the program has them on the GPU.
        place = CPU if mode.recorder.info_of(other).host else META
        kwargs = {name: value for name, value in kwargs.items() if name != "other"}
        return func(args[0], place, other.dtype, *args[2:], **kwargs)
    kwargs = {name: standing_for(value) if name == "device" else value for name, value in kwargs.items()}
    rest = [standing_for(value) if at == 0 and isinstance(value, (str, torch.device, int)) and not isinstance(value, bool) else value
            for at, value in enumerate(args[1:])]
    if all(value is None for value in (*rest[:2], kwargs.get("device"), kwargs.get("dtype"))):
        # PyTorch names the tensor's own device, which is not the stand-in's.
        place = CPU if mode.recorder.info_of(args[0]).host else META
        kwargs.pop("device", None)
        rest = [place, *rest[1:]]
    return func(args[0], *rest, **kwargs)


@_handles(Tensor.contiguous)
def _contiguous(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    result = func(*args, **kwargs)
    if result is args[0] and mode.recorder.recording():
        # Python calls no operator for a tensor that is contiguous. At other sizes this one may not be: a batch of one can be merged with
        # any dimension without a copy.
        mode.recorder.handler(torch.ops.aten.contiguous.default)(*args, **kwargs)
    return result


@_handles(Tensor.type_as)
def _type_as(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return _to(mode, Tensor.to, args, kwargs)


@_handles(Tensor.cuda)
def _cuda(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return args[0].to(META, memory_format=kwargs.get("memory_format", torch.preserve_format))


@_handles(Tensor.cpu)
def _cpu(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return args[0].to(CPU, memory_format=kwargs.get("memory_format", torch.preserve_format))


@_handles(Tensor.pin_memory, Tensor.share_memory_)
def _pin_memory(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return args[0]


@_handles(torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, Tensor.new_tensor)
def _from_data(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    """A tensor made from Python data. For the GPU it is built on the host and copied."""
    recorder = mode.recorder
    kwargs = dict(kwargs)
    wanted = kwargs.pop("device", None)
    host = True
    if func is Tensor.new_tensor:
        host = recorder.info_of(args[0]).host
        kwargs.setdefault("dtype", args[0].dtype)
        args, func = args[1:], torch.tensor
    elif func is not torch.from_numpy and wanted is None:
        wanted = _device_of_script()
    if wanted is not None:
        device = as_device(wanted)
        host = device is not None and device.type == "cpu"
    data = args[0] if args else kwargs.get("data")
    if isinstance(data, torch.Tensor):
        if wanted is None:
            host = recorder.info_of(data).host
        target = CPU if host else META
        if func in (torch.as_tensor, torch.asarray):
            return data.to(device=target, dtype=kwargs.get("dtype"))
        return data.detach().to(device=target, dtype=kwargs.get("dtype"), copy=True)
    if isinstance(data, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in data):
        data = [_number(mode, item) for item in data]
        args = (data,) + args[1:] if args else args
        if not args:
            kwargs["data"] = data
    requires_grad = kwargs.pop("requires_grad", False)
    if func is not torch.from_numpy:
        kwargs["device"] = CPU
    with recorder.paused():
        result = func(*args, **kwargs)
    info = recorder.adopt(result, recorder.session.kinds.of(result), None, 0, host, real=True, known=True)
    number = recorder.session.pseudo("vramfit.tensor", ["dtype", "device"])
    recorder.steps.append((
        "call", number, [encode_word(result.dtype), {"device": "cpu" if host else "cuda"}], [info.name],
        recorder.session.sources.here(), 0,
    ))
    if requires_grad:
        with mode:
            result.requires_grad_()
    return result


def _device_of_script() -> Optional[torch.device]:
    """What ``torch.set_default_device`` or ``with torch.device(…)`` says, if anything: PyTorch applies it after this mode."""
    return getattr(sys.modules.get("torch.utils._device"), "CURRENT_DEVICE", None)


def _number(mode: FunctionMode, item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return item.item() if item.dim() == 0 else item.tolist()
    return item


@_handles(Tensor.tolist, Tensor.numpy, Tensor.__array__)
def _read_all(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    recorder = mode.recorder
    info = recorder.info_of(args[0])
    if not info.known or info.storage.assumed:
        recorder.assume(f"{recorder.where()}: reads the values of a tensor that is computed from the weights; evenly spread values were assumed")
    number = recorder.session.pseudo("vramfit.read", ["self"])
    source = recorder.session.sources.here()
    recorder.follows(source, frozenset() if info.storage.assumed else info.storage.given)
    recorder.steps.append(("call", number, [info.name], [], source, 0))
    with recorder.paused():
        if not info.known:
            return func(recorder.assumed_values(info.kind), *args[1:], **kwargs)
        return func(*args, **kwargs)


@_handles(_property("data").__get__)
def _data(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    return args[0].detach()


@_handles(_property("data").__set__)
def _set_data(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    recorder = mode.recorder
    old, new = recorder.info_of(args[0]), recorder.info_of(args[1])
    value, real = args[1], new.real
    with recorder.paused():
        if args[0].device != value.device:
            # One stand-in has values and the other has none: PyTorch lets a tensor take only data of its own device.
            value = new.kind.zeros() if args[0].device == CPU else new.kind.stand_in().detach()
            real = False
        func(args[0], value)
    if new is old:
        return
    if new.kind.dtype is not old.kind.dtype and old.index < len(recorder.replacements):
        recorder.recast = recorder.where()
    kind = recorder.session.kinds.of(args[0])
    del recorder.infos[id(args[0])]
    info = recorder.adopt(args[0], kind, new.storage, new.offset, new.host, leaf=old.leaf, real=real)
    number = recorder.session.pseudo("vramfit.set_data", ["self", "data"])
    recorder.steps.append(("call", number, [old.name, new.name], [info.name], recorder.session.sources.here(), 0))
    recorder.free(old.index)


@_handles(Tensor.requires_grad_)
def _requires_grad_(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    wanted = args[1] if len(args) > 1 else kwargs.get("requires_grad", True)
    _set_requires_grad(mode, func, (args[0], wanted), {})
    return args[0]


@_handles(_property("requires_grad").__set__)
def _set_requires_grad(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    recorder = mode.recorder
    tensor, wanted = args[0], bool(args[1])
    info = recorder.info_of(tensor)
    if info.kind.requires_grad == wanted:
        return
    tensor.requires_grad_(wanted)
    kind = info.kind
    info.kind = recorder.session.kinds.get(kind.dtype, kind.shape, kind.stride, wanted)
    number = recorder.session.pseudo("aten.requires_grad_.default", ["self", "requires_grad"])
    recorder.steps.append(("call", number, [info.name, wanted], [info.name], recorder.session.sources.here(), 0))


@_handles(Tensor.__setitem__)
def _setitem(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    """A number assigned to a slice of a CUDA tensor stays on the host; for a meta tensor it would be created on meta."""
    tensor, index, value = args
    if isinstance(value, (int, float, bool)):
        value = mode.recorder.scalar(value, tensor.dtype)
    func(tensor, index, value)


class NoHandle:
    """The handle of a hook that was not registered."""

    def remove(self) -> None:
        """Does nothing: no hook was registered."""


@_handles(Tensor.register_hook, Tensor.register_post_accumulate_grad_hook)
def _register_hook(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    recorder = mode.recorder
    recorder.session.note(f"{recorder.where()}: a hook on a tensor's gradient is not part of the capture")
    return NoHandle()


@_handles(Tensor.retain_grad)
def _retain_grad(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    recorder = mode.recorder
    info = recorder.info_of(args[0])
    number = recorder.session.pseudo("vramfit.retain_grad", ["self"])
    recorder.steps.append(("call", number, [info.name], [], recorder.session.sources.here(), 0))


@_handles(torch._C._set_grad_enabled)
def _set_grad_enabled(mode: FunctionMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    wanted = bool(args[0])
    if wanted != torch.is_grad_enabled():
        mode.recorder.steps.append(("grad", wanted))
    func(wanted)
