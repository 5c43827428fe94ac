"""Modules that cannot be captured as they are, and what to pass instead."""

from __future__ import annotations

import torch

from .errors import CaptureError

_WRAPPERS = {
    "OptimizedModule": ("compiled with torch.compile", "capture the module before torch.compile, or its _orig_mod"),
    "DistributedDataParallel": ("wrapped in DistributedDataParallel", "capture the wrapped module: model.module"),
    "DataParallel": ("wrapped in DataParallel", "capture the wrapped module: model.module"),
    "FullyShardedDataParallel": ("wrapped in FullyShardedDataParallel", "capture the module before it is wrapped"),
    "FSDPModule": ("sharded with fully_shard", "capture the module before it is sharded"),
}


def refuse(model: object) -> None:
    """Raises if the model is not a module, or wraps another one."""
    if not isinstance(model, torch.nn.Module):
        if isinstance(model, type) and issubclass(model, torch.nn.Module):
            raise CaptureError(f"model: found the class {model.__name__}, needed a module made of it", f"call it: {model.__name__}(...)")
        raise CaptureError(f"model: found {type(model).__name__}, needed a torch.nn.Module", "wrap a function in a module")
    for path, module in model.named_modules():
        for kind in type(module).__mro__:
            found = _WRAPPERS.get(kind.__name__)
            if found is not None and kind.__module__.startswith("torch."):
                where = f"its submodule {path}" if path else "it"
                raise CaptureError(f"{type(model).__name__}: {where} is {found[0]}", found[1])
        if getattr(module, "_compiled_call_impl", None) is not None:
            where = f"its submodule {path}" if path else "it"
            raise CaptureError(f"{type(model).__name__}: {where} is compiled with module.compile()", "capture the module before compiling it")
        if isinstance(module, torch.jit.ScriptModule):
            where = f"its submodule {path}" if path else "it"
            raise CaptureError(f"{type(model).__name__}: {where} is a TorchScript module", "capture the module it was made from")
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise CaptureError(f"{type(model).__name__}: parameter {name} has no shape yet", "run the model once, so that lazy modules take their shapes")
        if type(parameter).__name__ == "DTensor" or type(parameter.data).__name__ == "DTensor":
            raise CaptureError(f"{type(model).__name__}: parameter {name} is sharded over devices (DTensor)", "capture the module before it is sharded")
