"""Regions of a recording (module calls, autocast, checkpoints, custom autograd functions) and the patches that detect them."""

from __future__ import annotations

import inspect
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
import torch.utils.checkpoint
from torch._functorch.autograd_function import custom_function_call
from torch._ops import OpOverload

from .custom_functions import SavedTensors, record_backward, watching_saves
from .patches import Patches
from .transforms import in_a_transform

_PRE = torch._C.DispatchKey.PreDispatch
_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def tensors_in(value: Any, found: List[torch.Tensor], depth: int = 4) -> List[torch.Tensor]:
    """The tensors in (nested) arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            tensors_in(item, found, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            tensors_in(item, found, depth - 1)
    return found


def _drop(_: Any) -> Any:
    """A saved-tensors hook that saves nothing, because there is no backward pass."""
    return None


def _context_of(result: Any) -> Any:
    """The context of the custom function that made these results."""
    with torch._C.DisableTorchFunction():
        return next((one.grad_fn for one in tensors_in(result, []) if one.grad_fn is not None), None)


class Regions:
    """Installs the patches of a capture. They report to the recorder of the current pass."""

    def __init__(self, modules: "ModuleTable", patches: Patches) -> None:
        self.recorder: Any = None
        self.modules = modules
        self.patches = patches
        self.owner = threading.get_ident()

    def _names(self, *values: Any) -> List[str]:
        infos = self.recorder.infos
        names: List[str] = []
        for tensor in tensors_in(values, []):
            info = infos.get(id(tensor))
            if info is not None:
                names.append(info.name)
        return names

    def install(self) -> None:
        """Installs all patches; `patches` restores them."""
        self._dispatch()
        self._checks()
        self._module_calls()
        self._autocast()
        self._functions()
        self._checkpoints()
        self._inference_mode()
        self._gpu()

    def _mine(self) -> bool:
        recorder = self.recorder
        return recorder is not None and recorder.active and not recorder.busy and threading.get_ident() == self.owner

    def _dispatch(self) -> None:
        original = OpOverload._get_dispatch
        regions, owner = self, self.owner

        def get_dispatch(overload: OpOverload, key: Any) -> Any:
            if key == _PRE and threading.get_ident() == owner and regions.recorder is not None:
                return regions.recorder.handler(overload)
            return original(overload, key)

        self.patches.set(OpOverload, "_get_dispatch", get_dispatch)

    def _checks(self) -> None:
        """torch.nn.functional checks whether a mode is active and would pass it the whole call. Answered no, its bodies run."""
        owner = self.owner
        replaced: Dict[int, Callable[..., bool]] = {}
        for name in _CHECKS:
            original = getattr(torch.overrides, name)

            def check(*args: Any, original: Any = original, **kwargs: Any) -> bool:
                return False if threading.get_ident() == owner else original(*args, **kwargs)

            replaced[id(original)] = check
        for name, module in list(sys.modules.items()):
            if module is None or not name.startswith("torch"):
                continue
            own = getattr(module, "__dict__", {})
            for check_name in _CHECKS:
                found = own.get(check_name)
                if found is not None and id(found) in replaced and name != "torch._ops":
                    self.patches.set(module, check_name, replaced[id(found)])

    def _module_calls(self) -> None:
        original: Callable[..., Any] = torch.nn.Module._call_impl
        regions = self

        def call_impl(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not regions._mine():
                return original(module, *args, **kwargs)
            steps = regions.recorder.steps
            number = regions.modules.number(module)
            steps.append(("enter", number, regions._names(args, kwargs)))
            try:
                result = original(module, *args, **kwargs)
            except BaseException:
                # A script may go on after an exception, or be stopped by one.
                regions.recorder.steps.append(("exit", number, []))
                raise
            steps.append(("exit", number, regions._names(result)))
            return result

        self.patches.set(torch.nn.Module, "_call_impl", call_impl)

    def _autocast(self) -> None:
        kind = torch.amp.autocast_mode.autocast
        enter: Callable[..., Any] = kind.__enter__
        leave: Callable[..., Any] = kind.__exit__
        regions = self

        def entered(region: Any) -> Any:
            result = enter(region)
            if regions._mine():
                regions.recorder.steps.append((
                    "autocast", region.device, bool(region._enabled), str(region.fast_dtype).replace("torch.", ""), bool(region._cache_enabled),
                ))
            return result

        def left(region: Any, *problem: Any) -> Any:
            if regions._mine():
                regions.recorder.steps.append(("end", "autocast"))
            return leave(region, *problem)

        self.patches.set(kind, "__enter__", entered)
        self.patches.set(kind, "__exit__", left)
        clear = torch.clear_autocast_cache

        def clear_cache() -> None:
            if regions._mine():
                regions.recorder.clear_autocast_cache()
            clear()

        self.patches.set(torch, "clear_autocast_cache", clear_cache)
        self.patches.set(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        self.patches.set(torch.cuda, "is_bf16_supported", lambda *_, **__: True)

    def _functions(self) -> None:
        """Custom autograd functions: their forward is recorded where it is called, their backward beside it."""
        # A classmethod written in Python, or from torch 2.15 on in C.
        bound = vars(torch.autograd.Function)["apply"]
        regions = self

        def original(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return bound.__get__(None, cls)(*args, **kwargs)

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            if not regions._mine():
                return original(cls, *args, **kwargs)
            recorder = regions.recorder
            if not recorder.recording() or in_a_transform():
                return original(cls, *args, **kwargs)
            if cls is torch.utils.checkpoint.CheckpointFunction:
                recorder.steps.append(("checkpoint", True, bool(args[1]), regions._names(args)))
                with torch.autograd.graph.saved_tensors_hooks(_drop, _drop):
                    result = original(cls, *args, **kwargs)
                recorder.steps.append(("end", "checkpoint", regions._names(result)))
                regions._mark(result, args)
                return result
            if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors_in((args, kwargs), [])):
                # No gradient is needed, so nothing is saved: only the calls inside are recorded.
                return original(cls, *args, **kwargs)
            name = f"{cls.__module__}.{cls.__qualname__}"
            recorder.steps.append(("function", name, regions._names(args, kwargs)))
            saved: List[str] = []

            def pack(tensor: torch.Tensor) -> Any:
                saved.extend(regions._saved_name(tensor))
                return None

            with torch.autograd.graph.saved_tensors_hooks(pack, _drop):
                result, kept = watching_saves(recorder, lambda: original(cls, *args, **kwargs))
            regions._mark(result, args)
            context = _context_of(result)
            attributes = regions._names(list(getattr(context, "__dict__", {}).values()))
            saved.extend(one for one in attributes if one not in saved)
            recorder.steps.append(("end", "function", regions._names(result), saved))
            regions._record_backward(cls, name, context, kept, attributes, result, () if kwargs else args)
            del context
            regions._cut(result)
            return result

        self.patches.set(torch.autograd.Function, "apply", classmethod(apply))
        # Inside transforms, a custom function is an operator of its own, which has no rule for the key at which calls are recorded.
        self.patches.set(custom_function_call, "non_fallthrough_keys", custom_function_call.non_fallthrough_keys.remove(_PRE))

    def _record_backward(
        self, function: Any, name: str, context: Any, kept: SavedTensors, attributes: List[str], result: Any, args: Tuple[Any, ...],
    ) -> None:
        recorder = self.recorder
        backward = record_backward(recorder, function, context, kept, attributes, result, args) if context is not None and args else None
        kept.drop()
        if backward is None:
            recorder.session.note(f"custom autograd function {name}: its backward is its own and is not recorded")
        else:
            recorder.backwards.append(backward._replace(end=backward.end - 1))

    def _cut(self, result: Any) -> None:
        """Removes PyTorch's own graph from the results: it would hold the function's arguments."""
        with torch._C.DisableTorchFunction(), self.recorder.paused():
            for tensor in tensors_in(result, []):
                if tensor.grad_fn is not None and not tensor._is_view():
                    tensor.detach_().requires_grad_()

    def _saved_name(self, tensor: torch.Tensor) -> List[str]:
        info = self.recorder.infos.get(id(tensor))
        return [info.name] if info is not None else []

    def _mark(self, result: Any, args: Tuple[Any, ...]) -> None:
        """Results of a custom function that require a gradient are not leaves."""
        recorder = self.recorder
        for tensor in tensors_in(result, []):
            info = recorder.infos.get(id(tensor))
            with torch._C.DisableTorchFunction():
                if info is None:
                    owner = next((recorder.infos[id(value)] for value in tensors_in(args, []) if id(value) in recorder.infos), None)
                    info = recorder.adopt(
                        tensor, recorder.session.kinds.of(tensor), owner.storage if owner else None, owner.offset if owner else 0,
                        owner.host if owner else False, view=owner is not None, real=owner.real if owner else False,
                    )
                elif tensor.requires_grad and not info.kind.requires_grad:
                    info.kind = recorder.session.kinds.of(tensor)
                info.leaf = not tensor.requires_grad

    def _checkpoints(self) -> None:
        module = torch.utils.checkpoint
        # torch 2.15 passes the function's arguments as a tuple and a dict; the function that had this name before calls it.
        newer = "_checkpoint_without_reentrant_generator_impl"
        if hasattr(module, newer):
            original: Callable[..., Iterator[Any]] = getattr(module, newer)

            def generator(fn: Any, args: Any, kwargs: Any, *, preserve_rng_state: bool = True, **more: Any) -> Iterator[Any]:
                inner = original(fn, args, kwargs, preserve_rng_state=preserve_rng_state, **more)
                return self._checkpoint(inner, preserve_rng_state, args, kwargs)

            self.patches.set(module, newer, generator)
        else:
            older: Callable[..., Iterator[Any]] = module._checkpoint_without_reentrant_generator
            # Before the function's own arguments; torch 2.9 has one more than 2.8.
            own = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in inspect.signature(older).parameters.values()) - 2

            def positional(fn: Any, preserve_rng_state: bool = True, *rest: Any, **kwargs: Any) -> Iterator[Any]:
                inner = older(fn, preserve_rng_state, *rest, **kwargs)
                return self._checkpoint(inner, preserve_rng_state, rest[own:], kwargs)

            self.patches.set(module, "_checkpoint_without_reentrant_generator", positional)

    def _checkpoint(self, inner: Iterator[Any], preserve_rng_state: bool, arguments: Any, kwargs: Any) -> Iterator[Any]:
        """Records a checkpoint region around the function that checkpointing runs."""
        if not self._mine():
            yield from inner
            return
        self.recorder.steps.append(("checkpoint", False, bool(preserve_rng_state), self._names(arguments, kwargs)))
        # What it does before the function runs (a dummy tensor, the random state) stays on the host.
        with self.recorder.paused():
            next(inner)
        yield
        for _ in inner:
            pass
        self.recorder.steps.append(("end", "checkpoint", []))

    def _gpu(self) -> None:
        """Answers queries about the GPU as an NVIDIA Hopper GPU would, whatever this machine has."""
        regions = self

        def capability(*args: Any, **kwargs: Any) -> Tuple[int, int]:
            if not regions._mine():
                return original(*args, **kwargs)
            recorder = regions.recorder
            recorder.session.note(f"{recorder.where()}: asks for the GPU's compute capability; 9.0 was answered")
            return (9, 0)

        original = torch.cuda.get_device_capability
        self.patches.set(torch.cuda, "get_device_capability", capability)
        for name, answer in (("current_device", 0), ("device_count", 1), ("synchronize", None)):
            real = getattr(torch.cuda, name)
            self.patches.set(
                torch.cuda, name, lambda *a, real=real, answer=answer, **k: answer if regions._mine() else real(*a, **k),
            )

    def _inference_mode(self) -> None:
        kind = torch.autograd.grad_mode.inference_mode
        enter, leave = kind.__enter__, kind.__exit__
        regions = self

        def entered(region: Any) -> None:
            if not regions._mine():
                return enter(region)
            region._vramfit_before = torch.is_grad_enabled()
            if region.mode:
                torch._C._set_grad_enabled(False)
            return None

        def left(region: Any, *problem: Any) -> None:
            if "_vramfit_before" not in vars(region):
                return leave(region, *problem)
            torch._C._set_grad_enabled(vars(region).pop("_vramfit_before"))
            return None

        self.patches.set(kind, "__enter__", entered)
        self.patches.set(kind, "__exit__", left)


class ModuleTable:
    """The modules of a model and their dotted paths; modules created during the run have none."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.rows: List[Tuple[Any, str]] = []
        self._numbers: Dict[int, int] = {}
        self._kept: List[torch.nn.Module] = []
        self._loose: Dict[str, int] = {}
        for path, module in model.named_modules():
            self._numbers[id(module)] = len(self.rows)
            self._kept.append(module)
            self.rows.append((path, type(module).__name__))

    def number(self, module: torch.nn.Module) -> int:
        """The module's index in the file's table."""
        number = self._numbers.get(id(module))
        if number is None:
            name = type(module).__name__
            number = self._loose.get(name)
            if number is None:
                number = self._loose[name] = len(self.rows)
                self.rows.append((None, name))
        return number
