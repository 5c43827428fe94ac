"""Turns a case's settings into optimizers, checkpointing and autocast, as people write them."""

import contextlib
import functools

import torch
from memory_tricks import selective
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

# The optimizers of torch.optim, with the arguments that choose them.
OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {}),
    "adam": (torch.optim.Adam, {}),
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "amsgrad": (torch.optim.Adam, {"amsgrad": True}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "adagrad": (torch.optim.Adagrad, {}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {}),
    "nadam": (torch.optim.NAdam, {}),
    "radam": (torch.optim.RAdam, {}),
    "adafactor": (torch.optim.Adafactor, {}),
}
IMPLEMENTATIONS = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "for-loop": {"foreach": False},
}


def outermost_sequential(model):
    """modules() goes from the outside in."""
    return next(module for module in model.modules() if isinstance(module, torch.nn.Sequential))


def apply_checkpointing(model, setting, saved="none"):
    """Non-reentrant everywhere. `saved`: what is kept in checkpointed modules."""
    arguments = {"use_reentrant": False, **selective(saved)}
    if setting == "none":
        return
    if setting == "blocks":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=arguments)
        return
    if setting.startswith("sequential:"):
        segments = int(setting.split(":")[1])
        sequential = outermost_sequential(model)
        functions = list(sequential.children())
        sequential.forward = lambda input: checkpoint_sequential(functions, segments, input, **arguments)
        return
    for name in setting.split(","):
        module = model.get_submodule(name)
        module.forward = functools.partial(checkpoint, module.forward, **arguments)


def autocast(setting, device):
    """A new context for each forward pass; its end clears the cache of cast weights."""
    if setting == "none":
        return contextlib.nullcontext()
    return torch.autocast(device, dtype={"bf16": torch.bfloat16, "fp16": torch.float16}[setting])


def make_scaler(setting, device):
    return torch.amp.GradScaler(device, init_scale=128) if setting == "fp16" else None
