"""The command line's flags as Python keywords, checked before a model is captured."""

from __future__ import annotations

import difflib
import os
from typing import Any, Callable, Dict, List, Mapping, Optional

from ..errors import SettingError


def _count(name: str, value: Any) -> List[str]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(f"{name}: found {value!r}, needed a whole number from 1 on")
    return [_flag(name), str(value)]


def _elements(least: int) -> Callable[[str, Any], List[str]]:
    """A number of elements, as DeepSpeed's configuration may have it: 5e7 is a whole number, too."""

    def words(name: str, value: Any) -> List[str]:
        is_whole = not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
        if not is_whole or value < least:
            raise SettingError(f"{name}: found {value!r}, needed a whole number from {least} on")
        return [_flag(name), str(int(value))]

    return words


def _rank(name: str, value: Any) -> List[str]:
    """True for the default rank, or the rank."""
    if value is True or value is False:
        return [_flag(name)] if value else []
    return _count(name, value)


def _switch(name: str, value: Any) -> List[str]:
    if not isinstance(value, bool):
        raise SettingError(f"{name}: found {value!r}, needed True or False")
    return [_flag(name)] if value else []


def _truth(name: str, value: Any) -> List[str]:
    if not isinstance(value, bool):
        raise SettingError(f"{name}: found {value!r}, needed True or False")
    return [_flag(name), "true" if value else "false"]


def _bytes(name: str, value: Any) -> List[str]:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return [_flag(name), f"{value}B"]
    if isinstance(value, str):
        return [_flag(name), value]
    raise SettingError(f"{name}: found {value!r}, needed a number of bytes, or text such as \"11GiB\"")


def _share(name: str, value: Any) -> List[str]:
    """A share of the capacity: ``0.02`` or ``"2%"``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1:
        return [_flag(name), repr(value)]
    if isinstance(value, str):
        return [_flag(name), value]
    raise SettingError(f"{name}: found {value!r}, needed a share of at least 0 and below 1, such as 0.02 or \"2%\"")


def _text(name: str, value: Any) -> List[str]:
    if not isinstance(value, str):
        raise SettingError(f"{name}: found {value!r}, needed text")
    return [_flag(name), value]


def _speed(name: str, value: Any) -> List[str]:
    """GB/s, or a word such as ``"nvlink"``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    return _text(name, value)


def _truth_or_count(name: str, value: Any) -> List[str]:
    """True, False, or a number of GPUs. Answers have it as text."""
    if value in ("true", "false") or isinstance(value, str) and value.isdecimal():
        return [_flag(name), value]
    return _truth(name, value) if isinstance(value, bool) else _count(name, value)


def _path(name: str, value: Any) -> List[str]:
    """A path, or a word such as ``"off"``."""
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name}: found {value!r}, needed a path or \"off\"")
    return [_flag(name), os.fspath(value)]


def _file(name: str, value: Any) -> List[str]:
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name}: found {value!r}, needed the path of a file")
    return [_flag(name), os.fspath(value)]


def _modules(name: str, value: Any) -> List[str]:
    """``"blocks"``, ``"sequential:2"``, or names and globs of modules."""
    if isinstance(value, (list, tuple)) and (value or name == "keep") and all(isinstance(part, str) for part in value):
        return [_flag(name), ",".join(value)] if value else []
    return _text(name, value)


def _sizes(name: str, value: Any) -> List[str]:
    """``{"h": 224}`` binds a symbol, ``{"x": (4, 3, 224, 224)}`` all symbols of an input."""
    if not isinstance(value, Mapping):
        raise SettingError(f"{name}: found {value!r}, needed a dict such as {{\"h\": 224}} or {{\"x\": (4, 3, 224, 224)}}")
    flags: List[str] = []
    for key, size in value.items():
        parts = size if isinstance(size, (list, tuple)) else [size]
        if not parts or not all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
            raise SettingError(f"{name}[{key!r}]: found {size!r}, needed a whole number, or one for each dimension")
        flags += ["--size", f"{key}={'x'.join(map(str, parts))}"]
    return flags


def _one_of(*names: str, hint: str = "") -> Callable[[str, Any], List[str]]:
    def check(name: str, value: Any) -> List[str]:
        if value not in names:
            raise SettingError(f"{name}: found {value!r}, needed one of {', '.join(map(repr, names))}", _nearest(value, names) or hint)
        return [_flag(name), value]

    return check


OPTIMIZERS = (
    "adamw", "adam", "sgd", "momentum", "nesterov", "amsgrad", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "radam", "adafactor",
    "muon", "adafactor-hf", "adamw8bit", "adam8bit", "lion8bit", "lion", "paged-adamw8bit", "paged-adamw", "paged-lion8bit", "paged-lion",
    "none",
)

_OTHER_OPTIMIZERS = (
    "only optimizers of torch.optim and some of bitsandbytes are modelled; name one that keeps as much for each weight: 'momentum' keeps one tensor, 'adamw' two"
)

SETTINGS: Dict[str, Callable[[str, Any], List[str]]] = {
    "batch": _count, "seq": _count, "size": _sizes,
    "optimizer": _one_of(*OPTIMIZERS, hint=_OTHER_OPTIMIZERS), "optimizer_impl": _one_of("default", "foreach", "fused", "for-loop"), "weight_decay": _switch,
    "optimizer_groups": _text, "optimizer_state": _one_of("gpu", "cpu"), "step_in_backward": _switch,
    "clip_grad": _switch, "cudnn_benchmark": _switch, "channels_last": _switch, "inputs_are": _one_of("kept", "fresh", "whole"), "outputs": _one_of("held", "released"),
    "dtype": _one_of("fp32", "bf16", "fp16", "fp64"), "amp": _one_of("bf16", "fp16"), "checkpoint": _modules,
    "checkpoint_save": _modules, "offload_activations": _one_of("none", "pinned", "pageable"), "chunked_loss": _count,
    "fused_attention": _switch, "in_place": _switch, "lora": _rank, "lora_targets": _modules, "lora_dropout": _share, "quantize": _one_of("nf4", "int8"),
    "quantize_compute": _one_of("fp32", "bf16", "fp16", "fp64"),
    "fused_linear_loss": _one_of("liger"), "freeze": _modules, "ema": _switch,
    "accumulate": _count, "zero_grad": _one_of("before-forward", "before-backward"), "set_to_none": _truth,
    "mode": _one_of("train", "eval"), "grad": _switch, "add_loss": _one_of("cross-entropy", "mean", "none"), "steps": _count,
    "parallel": _text, "world": _count, "shard": _modules, "reshard_after_forward": _truth_or_count, "param_dtype": _one_of("fp32", "bf16", "fp16", "fp64"),
    "reduce_dtype": _one_of("fp32", "bf16", "fp16", "fp64"), "cpu_offload": _switch, "gradient_as_bucket_view": _switch, "static_graph": _switch, "no_sync": _truth,
    "reduce_bucket_size": _elements(1), "overlap_comm": _truth, "gradient_clipping": _truth,
    "stage3_prefetch_bucket_size": _elements(0), "stage3_max_live_parameters": _elements(0), "stage3_max_reuse_distance": _elements(0),
    "stage3_param_persistence_threshold": _elements(0), "offload_param": _switch, "deepspeed_config": _file,
    "gpus": _count, "nodes": _count, "link": _speed, "network": _speed,
    "gpu": _text, "vram": _bytes, "alloc_conf": _text, "torch": _text, "cudnn": _path, "margin": _share, "keep": _modules,
}

# Flags whose names are already keywords of ``estimate``.
_OTHER_NAMES = {"inputs_are": "--inputs", "add_loss": "--loss"}


def _flag(name: str) -> str:
    return _OTHER_NAMES.get(name) or "--" + name.replace("_", "-")


def _nearest(found: Any, names: Any) -> str:
    near = difflib.get_close_matches(str(found), list(names), 1, 0.6)
    return f"did you mean {near[0]!r}?" if near else ""


def flags(settings: Mapping[str, Optional[Any]]) -> List[str]:
    """The flags for these keywords; keywords that are None are left out."""
    given: List[str] = []
    for name, value in settings.items():
        check = SETTINGS.get(name)
        if check is None:
            raise SettingError(
                f"{name}: there is no such setting", _nearest(name, SETTINGS) or f"the settings are {', '.join(SETTINGS)}",
            )
        if value is not None:
            given += check(name, value)
    return given
