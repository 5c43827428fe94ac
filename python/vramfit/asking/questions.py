"""``vramfit.estimate``, ``vramfit.plan`` and ``vramfit.max_batch``: from a live module to the binary's answer."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ..answers.estimate import Estimate
from ..answers.plan import Plans
from ..answers.question import Question
from ..errors import SettingError
from .cudnn import own_library
from .live import as_applied
from .settings import flags

Loss = Union[str, Callable[..., Any], None]
_LOSSES = ("cross-entropy", "mean", "none")
# Settings that not every command has.
_ONLY_FOR = {"margin": ("plan", "max-batch"), "keep": ("plan",)}


def estimate(
    model: Any, inputs: Any = None, *, targets: Any = None, loss: Loss = None, optimizer: Any = "adamw", batch: Optional[int] = None,
    sizes: Optional[Mapping[str, Sequence[Any]]] = None, share: Optional[float] = None, **settings: Any,
) -> Estimate:
    """Predicts the memory that a training run of ``model`` will allocate and reserve, without a GPU.

    ``model`` is a module on any device, including meta. It needs example ``inputs``: a dict of keyword arguments, a tuple, or
    one tensor. If it returns no loss itself, give ``targets`` and ``loss(outputs, targets)``. ``model`` may also be a file, or a
    name that ``vramfit models`` lists, without inputs. ``batch`` may differ from the example's. ``optimizer`` is a name or a
    live ``torch.optim`` optimizer. ``share`` is the part of a mask that is true where the mask is computed from the weights, as for
    ``capture``. ``settings`` are the flags of ``vramfit estimate``: ``gpu="RTX 3060"``, ``vram="11GiB"``,
    ``amp="bf16"``, ``checkpoint="blocks"`` and so on; ``inputs_are="fresh"`` is ``--inputs fresh``. ``cudnn`` is the cuDNN to ask
    for the workspaces of convolutions: a path, or ``"off"``; by default that of this interpreter's torch.
    """
    question, causes = _question("estimate", model, inputs, targets, loss, sizes, share, dict(settings, optimizer=optimizer, batch=batch))
    return Estimate.of(json.loads(question.ask("--json")), question, causes, question.model)


def plan(
    model: Any, inputs: Any = None, *, targets: Any = None, loss: Loss = None, optimizer: Any = "adamw", batch: Optional[int] = None,
    sizes: Optional[Mapping[str, Sequence[Any]]] = None, share: Optional[float] = None, **settings: Any,
) -> Plans:
    """Finds the cheapest changes that make a training fit in ``gpu=`` or ``vram=``. Other arguments as for ``estimate``.

    A plan for a module is simulated as ``Plan.apply`` carries it out: batches are copied from where the example ``inputs``
    are, and a model that is on the GPU keeps the allocator settings of this process. ``margin`` is the share of the capacity
    that stays free, by default 0.02. ``keep`` names settings that must not change, such as ``["optimizer", "seq"]``. They are
    added to the settings that ``apply`` needs a function for instead of a live optimizer, and to fused attention, for which lines of
    the model change: only ``keep=[]`` plans with them too.
    """
    settings = as_applied(model, inputs, settings)
    question, causes = _question("plan", model, inputs, targets, loss, sizes, share, dict(settings, optimizer=optimizer, batch=batch))
    return Plans.of(json.loads(question.ask("--json")), question, causes, question.model, loss if callable(loss) else None)


def max_batch(
    model: Any, inputs: Any = None, *, targets: Any = None, loss: Loss = None, optimizer: Any = "adamw",
    sizes: Optional[Mapping[str, Sequence[Any]]] = None, share: Optional[float] = None, **settings: Any,
) -> int:
    """The largest batch such that every batch up to it fits; 0 if none does. Arguments as for ``estimate``.

    ``margin`` is the share of the capacity that stays free, by default 0.02.
    """
    question, _ = _question("max-batch", model, inputs, targets, loss, sizes, share, dict(settings, optimizer=optimizer))
    found: int = json.loads(question.ask("--json"))["max_batch"]
    return found


def _question(
    command: str, model: Any, inputs: Any, targets: Any, loss: Loss, sizes: Optional[Mapping[str, Sequence[Any]]], share: Optional[float],
    settings: Dict[str, Any],
) -> Tuple[Question, Tuple[str, ...]]:
    if isinstance(loss, str):
        if loss not in _LOSSES:
            raise SettingError(f"loss: found {loss!r}, needed a function of outputs and targets, or one of {', '.join(map(repr, _LOSSES))}")
        settings["add_loss"] = loss
    for name, commands in _ONLY_FOR.items():
        if settings.get(name) is not None and command not in commands:
            raise SettingError(f"{name}: {command} has no such setting", f"only {' and '.join(commands)} have it")
    causes = _named_optimizer(settings, model)
    if settings.get("cudnn") is None:
        settings["cudnn"] = own_library()
    given = flags(settings)
    if isinstance(model, (str, os.PathLike)):
        _without_module(inputs, targets, loss, sizes, share)
        return Question(command, tuple(given), os.fspath(model)), causes
    if inputs is None:
        raise SettingError("inputs: found None, needed example inputs of the model", "pass what you would pass to the model: a dict, a tuple, or one tensor")
    packed = _captured(model, inputs, targets, loss if callable(loss) else None, sizes, share, _variants(command, settings))
    return Question(command, tuple(given), type(model).__name__, packed), causes


def _named_optimizer(settings: Dict[str, Any], model: Any) -> Tuple[str, ...]:
    """Replaces a live optimizer by its name and settings."""
    optimizer = settings["optimizer"]
    if optimizer is None or isinstance(optimizer, str):
        return ()
    from .optimizers import describe

    described = describe(optimizer, None if isinstance(model, (str, os.PathLike)) else model)
    for name, value in described.settings().items():
        if name != "optimizer" and settings.get(name) is not None:
            raise SettingError(f"{name}: found {settings[name]!r} together with a live optimizer, which already sets it", f"leave {name} out")
        settings[name] = value
    return described.causes


def _without_module(*given: Any) -> None:
    for name, value in zip(("inputs", "targets", "loss", "sizes", "share"), given):
        if value is not None and not isinstance(value, str):
            raise SettingError(
                f"{name}: found {type(value).__name__} together with the name of a model, which has its own", f"leave {name} out, or pass the module itself",
            )


def _variants(command: str, settings: Mapping[str, Any]) -> Optional[Collection[Tuple[str, str]]]:
    """The precisions and modes that the question needs; a plan needs all of them, and a file of DeepSpeed may say any."""
    if command == "plan" or settings.get("deepspeed_config") is not None:
        return None
    mode = settings.get("mode") or "train"
    mode = "eval-grad" if mode == "eval" and settings.get("grad") else mode
    # Sharded modules compute in param_dtype, whatever their weights are stored in.
    amp, dtype = settings.get("amp"), settings.get("param_dtype") or settings.get("dtype")
    names: List[str] = [f"amp-{amp}"] if amp else [dtype] if dtype in ("fp32", "bf16", "fp16") else ["as-built"]
    return {(name, mode) for name in names}


def _captured(
    model: Any, inputs: Any, targets: Any, loss: Optional[Callable[..., Any]], sizes: Any, share: Optional[float],
    only: Optional[Collection[Tuple[str, str]]],
) -> bytes:
    """Captures the model and returns the file's bytes; no file remains."""
    from ..capturing import capture

    with tempfile.TemporaryDirectory(prefix="vramfit-") as folder:
        path = os.path.join(folder, "model.vramfit")
        capture(model, inputs, path, targets=targets, loss=loss, sizes=sizes, share=share, only=only)
        with open(path, "rb") as stream:
            return stream.read()
