"""What libraries do around a training: loaders, files, compilers, optimizers. Each patch keeps what matters to GPU memory."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch.nn.modules.rnn import RNNBase
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.optim import optimizer as optimizers

from ..function_mode import NoHandle
from ..patches import Patches
from ..regions import tensors_in
from ..transforms import in_a_transform
from . import (
    backward, distributed, distributions, function_transforms, lbfgs, legacy_types, loaders, profilers, saved, sparse, tensor_methods,
)
from .host_memory import kept_when_freed
from .recorder import ScriptRecorder



def install(patches: Patches, recorder: ScriptRecorder, stepped: Callable[[Any], None], world: Optional[int] = None) -> List[Any]:
    """Installs the patches and returns handles that have to be removed afterwards."""
    _autograd(patches, recorder)
    _parameters(patches, recorder)
    tensor_methods.install(patches, recorder)
    _module_hooks(patches, recorder)
    legacy_types.install(patches)
    _moves(patches, recorder)
    loaders.install(patches, recorder)
    recorder.random_numbers.install(patches)
    distributions.install(patches, recorder)
    distributed.install(patches, recorder, world)
    function_transforms.install(patches, recorder)
    lbfgs.install(patches, recorder)
    profilers.install(patches, recorder)
    files = saved.install(patches, recorder)
    _compilers(patches, recorder)
    _grouping(patches, recorder)
    _scalers(patches, recorder)
    _recurrent(patches, recorder)
    return [optimizers.register_optimizer_step_post_hook(lambda optimizer, *_: stepped(optimizer)), files]


def _autograd(patches: Patches, recorder: ScriptRecorder) -> None:
    def run(
        roots: Sequence[Any], gradients: Sequence[Any], keep_graph: bool, create_graph: bool, inputs: Sequence[Any],
        allow_unreachable: bool = False, accumulate_grad: bool = False,
    ) -> Any:
        if in_a_transform():
            # The layers have a graph of their own, and its gradients are calls below them.
            recorder.layered += 1
            recorder.pseudo("thread", {"is_backward": True})
            try:
                return engine(roots, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
            finally:
                recorder.pseudo("thread", {"is_backward": False})
                recorder.layered -= 1
        recorder.is_cudnn_benchmarked |= bool(torch.backends.cudnn.benchmark)
        recorder.pseudo("phase", {"what": {"string": "forward"}})
        found = backward.run_backward(
            recorder, roots, gradients, bool(keep_graph), bool(create_graph), inputs, allow_unreachable, accumulate_grad,
        )
        recorder.pseudo("phase", {"what": {"string": "backward"}})
        return found

    engine: Callable[..., Any] = torch.autograd._engine_run_backward
    patches.set(torch.autograd, "_engine_run_backward", run)
    profiler = torch.autograd.profiler.record_function
    patches.set(profiler, "__enter__", lambda self: self)
    patches.set(profiler, "__exit__", lambda self, *_: None)


def _scalers(patches: Patches, recorder: ScriptRecorder) -> None:
    original: Callable[..., Any] = torch.amp.GradScaler._maybe_opt_step

    def maybe_step(scaler: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.has_grad_scaler = True
        return original(scaler, *args, **kwargs)

    patches.set(torch.amp.GradScaler, "_maybe_opt_step", maybe_step)


def _module_hooks(patches: Patches, recorder: ScriptRecorder) -> None:
    def register(module: torch.nn.Module, hook: Any, *_: Any, **__: Any) -> NoHandle:
        recorder.session.note(f"{recorder.where()}: a backward hook on a module is not called")
        recorder.cause("backward hooks on modules are not simulated")
        return NoHandle()

    for name in ("register_full_backward_hook", "register_full_backward_pre_hook", "register_backward_hook"):
        patches.set(torch.nn.Module, name, register)


def _parameters(patches: Patches, recorder: ScriptRecorder) -> None:
    original = torch.Tensor._make_subclass

    def make(cls: Any, data: torch.Tensor, requires_grad: bool = False, **more: Any) -> Any:
        if not recorder.active or recorder.busy:
            return original(cls, data, requires_grad, **more)
        with torch._C.DisableTorchFunction():
            source = recorder.info_of(data)
            with recorder.paused():
                # The values of weights are not needed, and their gradients are on the device that they are on.
                trained = requires_grad and source.kind.dtype.is_floating_point
                base = source.kind.result().detach() if trained and data.device.type == "cpu" else data
                made = original(cls, base, requires_grad, **more)
            kind = recorder.session.kinds.of(made)
            if trained:
                source.storage.known = False
            info = recorder.adopt(made, kind, source.storage, source.offset, source.host, leaf=True, real=source.real and not trained)
        recorder.pseudo("parameter", {"data": source.name}, [info.name])
        return made

    def materialize(tensor: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """A weight of a lazy module gets its shape. It becomes a parameter first: what it is before refuses to be asked."""
        tensor.__class__ = tensor.cls_to_become
        info = recorder.info_of(tensor)
        tensor.data = torch.empty(shape, device=device or ("cpu" if info.host else "cuda"), dtype=dtype or info.kind.dtype)

    patches.set(torch.Tensor, "_make_subclass", staticmethod(make))
    patches.set(UninitializedTensorMixin, "materialize", materialize)


def _moves(patches: Patches, recorder: ScriptRecorder) -> None:
    original: Callable[..., Any] = torch.nn.Module._apply
    depth, is_first = [0], [True]

    def apply(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_first[0] and recorder.active:
            is_first[0] = False
            recorder.pseudo("host_keeps", {"bytes": kept_when_freed()})
        depth[0] += 1
        try:
            result = original(module, *args, **kwargs)
        finally:
            depth[0] -= 1
        if depth[0] == 0 and recorder.active:
            recorder.categorize([*module.parameters(), *module.buffers()], "parameters")
        return result

    patches.set(torch.nn.Module, "_apply", apply)
    # The stand-ins of a tensor on the host and on the GPU are of one kind.
    patches.set(torch, "_has_compatible_shallow_copy_type", lambda *_: True)


def _compilers(patches: Patches, recorder: ScriptRecorder) -> None:
    def run_eagerly() -> None:
        recorder.session.note(f"{recorder.where()}: torch.compile: run eagerly; a compiled model takes other memory")
        recorder.cause("torch.compile is not simulated: the model runs eagerly")

    def trace(model: Any = None, *_: Any, **__: Any) -> Any:
        recorder.session.note(f"{recorder.where()}: torch.jit.trace: run eagerly; a traced model may take other memory")
        recorder.cause("torch.jit.trace is not simulated: the model runs eagerly")
        return model

    def compile_eagerly(model: Any = None, **_: Any) -> Any:
        if isinstance(model, torch.nn.Module):
            run_eagerly()
            return model
        if model is None:
            return compile_eagerly

        @functools.wraps(model)
        def called(*args: Any, **kwargs: Any) -> Any:
            # Libraries compile functions that a script never calls.
            run_eagerly()
            return model(*args, **kwargs)

        return called

    patches.set(torch.jit, "trace", trace)
    patches.set(torch, "compile", compile_eagerly)
    patches.set(torch.nn.Module, "compile", lambda self, *_, **__: compile_eagerly(self) and None)


def _grouping(patches: Patches, recorder: ScriptRecorder) -> None:
    def group(lists: Sequence[Sequence[Optional[torch.Tensor]]], with_indices: bool = False) -> Dict[Any, Any]:
        groups: Dict[Any, Tuple[List[List[Any]], List[int]]] = {}
        for at, first in enumerate(lists[0]):
            assert first is not None
            key = (first.device, first.dtype)
            found = groups.setdefault(key, ([[] for _ in lists], []))
            for row, items in zip(found[0], lists):
                if items:
                    row.append(items[at])
            if with_indices:
                found[1].append(at)
        # PyTorch's hash table returns the newest group first.
        return dict(reversed(list(groups.items())))

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", group)


def _recurrent(patches: Patches, recorder: ScriptRecorder) -> None:
    def flatten(module: Any) -> None:
        """The weights move into one allocation, where cuDNN takes them."""
        weights = [weight for weight in module._flat_weights if isinstance(weight, torch.Tensor)]
        if len(weights) != len(module._flat_weights) or len(weights) != len(module._flat_weights_names) or not weights:
            return
        first = weights[0]
        if not all(weight.is_cuda and weight.dtype == first.dtype for weight in weights):
            return
        if first.dtype not in torch.backends.cudnn.CUDNN_TENSOR_DTYPES:
            return
        with torch.no_grad():
            whole = torch.empty(sum(weight.numel() for weight in weights), dtype=first.dtype, device="cuda")
            at = 0
            for weight in weights:
                weight.data = whole[at:at + weight.numel()].view(weight.shape)
                at += weight.numel()

    patches.set(RNNBase, "flatten_parameters", flatten)


def state_tensors(optimizer: Any) -> List[torch.Tensor]:
    """The tensors of an optimizer's state."""
    return tensors_in(list(optimizer.state.values()), [])


def imported(name: str) -> bool:
    """Whether the script has imported a library."""
    return name in sys.modules
