"""Methods of tensors that PyTorch writes in Python: copies and text."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from ..patches import Patches
from .recorder import ScriptRecorder


class Handle:
    """The handle of the hook that was registered last."""

    def __init__(self, hooks: List[Any]) -> None:
        self._hooks, self._hook = hooks, hooks[-1]

    def remove(self) -> None:
        """Removes the hook."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has tensors of the script copied and printed by their records."""

    def deepcopy(tensor: torch.Tensor, memo: Dict[int, Any]) -> Any:
        if id(tensor) in memo:
            return memo[id(tensor)]
        with torch.no_grad():
            copy = tensor.detach().clone(memory_format=torch.preserve_format)
        if isinstance(tensor, torch.nn.Parameter):
            # Without its gradient.
            copy = type(tensor)(copy, tensor.requires_grad)
        else:
            # PyTorch makes an empty tensor, which then takes the copied memory.
            tensor.new_empty([])
            if tensor.requires_grad:
                copy.requires_grad_()
            if tensor.grad is not None:
                copy.grad = deepcopy(tensor.grad, memo)
        memo[id(tensor)] = copy
        return copy

    def text(tensor: torch.Tensor, *_: Any, **__: Any) -> str:
        info = recorder.info_of(tensor)
        if info.known:
            with torch._C.DisableTorchFunction(), recorder.paused():
                return _text(tensor.detach().clone())
        recorder.assume(f"{recorder.where()}: prints a tensor whose values are not computed")
        device = "" if info.host else ", device='cuda:0'"
        return f"tensor(..., size={tuple(info.kind.shape)}, dtype={info.kind.dtype}{device})"

    def registering(takes_leaf: bool) -> Any:
        def register(tensor: torch.Tensor, hook: Any) -> Handle:
            hooks = recorder.hooks.setdefault(recorder.info_of(tensor).index, [])
            hooks.append((hook, takes_leaf))
            return Handle(hooks)

        return register

    _text: Callable[..., str] = torch.Tensor.__repr__
    patches.set(torch.Tensor, "register_hook", registering(False))
    patches.set(torch.Tensor, "register_post_accumulate_grad_hook", registering(True))
    def record_stream(tensor: torch.Tensor, stream: Any) -> None:
        """PyTorch takes only streams of its own, and there is none here."""
        recorder.session.note(f"{recorder.where()}: record_stream: streams are taken to be one")

    patches.set(torch.Tensor, "record_stream", record_stream)
    patches.set(torch.Tensor, "__deepcopy__", deepcopy)
    patches.set(torch.nn.Parameter, "__deepcopy__", deepcopy)
    patches.set(torch.Tensor, "__repr__", text)
    patches.set(torch.nn.Parameter, "__repr__", lambda parameter: "Parameter containing:\n" + text(parameter))
