"""What a script's Python code sees beyond what a model's does: gradients, hooks, copies, printed tensors."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

import torch

from ..function_mode import FunctionMode, NoHandle, _property
from .properties import check_device
from .recorder import ScriptRecorder

Tensor = torch.Tensor
_HANDLERS: Dict[Any, Any] = {}
Handled = TypeVar("Handled", bound=Callable[..., Any])
# Take care of it themselves.
_WITH_GRAD = (Tensor.requires_grad_, torch.tensor, torch.as_tensor, torch.asarray, Tensor.new_tensor)
_MOVES = (Tensor.to, Tensor.cuda)


class ScriptMode(FunctionMode):
    """Active while the script runs."""

    recorder: ScriptRecorder

    def __torch_function__(self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None) -> Any:
        if kwargs and "device" in kwargs:
            check_device(kwargs["device"])
        elif func in _MOVES and len(args) > 1:
            check_device(args[1])
        handler = _HANDLERS.get(func)
        if handler is not None:
            return handler(self, func, args, kwargs or {})
        if kwargs and kwargs.get("requires_grad") and func not in _WITH_GRAD:
            # PyTorch makes the tensor a leaf after the operator, where nothing sees it.
            kwargs = {name: value for name, value in kwargs.items() if name != "requires_grad"}
            result = super().__torch_function__(func, types, args, kwargs)
            with self:
                return result.requires_grad_()
        result = super().__torch_function__(func, types, args, kwargs)
        if func in _MOVES and isinstance(result, Tensor) and result is not args[0]:
            recorder = self.recorder
            before, after = recorder.infos.get(id(args[0])), recorder.infos.get(id(result))
            if before is not None and after is not None and before.host and not after.host:
                recorder.categorize([result], "inputs")
        return result


def _script_handles(*functions: Any) -> Callable[[Handled], Handled]:
    def register(handler: Handled) -> Handled:
        for function in functions:
            _HANDLERS[function] = handler
        return handler
    return register


@_script_handles(_property("grad").__set__)
def _set_grad(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    tensor, gradient = args
    recorder = mode.recorder
    info = recorder.info_of(tensor)
    with torch._C.DisableTorchFunction(), recorder.paused():
        before = tensor.grad
    if gradient is None and before is None:
        return
    name = None if gradient is None else recorder.info_of(gradient).name
    # Before the old gradient's object dies, so that its memory is freed in the right order.
    recorder.pseudo("set_grad", {"self": info.name, "gradient": name})
    with torch._C.DisableTorchFunction(), recorder.paused():
        tensor.grad = gradient


class _GradientFunction:
    """Stands for ``grad_fn``: the graph itself is not built."""

    next_functions: Tuple[Any, ...] = ()

    def name(self) -> str:
        """The name of a node whose kind is not known."""
        return "Backward"

    def register_hook(self, hook: Any) -> Any:
        """Hooks on nodes are not called."""
        return NoHandle()

    register_prehook = register_hook


@_script_handles(Tensor.retain_grad)
def _retain_grad(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    info = mode.recorder.info_of(args[0])
    if not info.leaf:
        mode.recorder.retained.add(info.index)


@_script_handles(_property("grad_fn").__get__)
def _grad_fn(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    info = mode.recorder.info_of(args[0])
    return _GradientFunction() if info.kind.requires_grad and not info.leaf else None


@_script_handles(Tensor.is_pinned, Tensor.is_shared)
def _is_pinned(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    return False


@_script_handles(Tensor.pin_memory)
def _pin_memory(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if mode.recorder.info_of(args[0]).host:
        mode.recorder.pinned.hold(args[0])
    return args[0]


@_script_handles(Tensor.data_ptr)
def _data_ptr(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> int:
    info = mode.recorder.info_of(args[0])
    return 512 * (info.storage.index + 1) + info.offset


class _StorageView:
    """A tensor's storage, whose address and size are those that the recording knows: the stand-ins of all tensors are at address 0."""

    def __init__(self, storage: Any, address: int) -> None:
        self._storage, self._address = storage, address

    def data_ptr(self) -> int:
        """Different for different storages."""
        return self._address

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def __len__(self) -> int:
        return len(self._storage)


@_script_handles(Tensor.untyped_storage)
def _untyped_storage(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    storage = func(*args)
    return _StorageView(storage, 512 * (mode.recorder.info_of(args[0]).storage.index + 1)) if args[0].is_meta else storage
