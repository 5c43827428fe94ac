"""Finds a model by name (``package.module:build`` or ``file.py:build``) and builds it without memory for its weights."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from typing import Any, Dict, Iterator, NamedTuple, Optional

import torch

from ..errors import VramfitError
from ..sources import shown_path
from .building import building


class Built(NamedTuple):
    """What a function returned: a model, and perhaps inputs, targets and a loss."""

    model: torch.nn.Module
    inputs: Any = None
    targets: Any = None
    loss: Any = None


def load(text: str, flag: str = "TARGET") -> Any:
    """The object with that name."""
    place, colon, name = text.rpartition(":")
    if not colon or not place or not name:
        raise VramfitError(f"{flag}: found {text!r}, needed package.module:name or file.py:name", "such as torchvision.models:resnet18 or train.py:build")
    module = _module(place, flag)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            import difflib

            near = difflib.get_close_matches(part, [one for one in vars(found) if not one.startswith("_")], 3)
            own = [one for one, value in vars(found).items() if getattr(value, "__module__", None) == module.__name__ and not one.startswith("_")]
            hint = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(own[:8])}" if own else ""
            raise VramfitError(f"{flag}: {place} has no {part!r}", hint)
        found = getattr(found, part)
    return found


def _module(place: str, flag: str) -> Any:
    # Like `python -m` for modules and `python file.py` for files.
    if place.endswith(".py"):
        if not os.path.isfile(place):
            raise VramfitError(f"{flag}: there is no file {place!r}")
        folder = os.path.dirname(os.path.abspath(place))
        if folder not in sys.path:
            sys.path.insert(0, folder)
        name = os.path.splitext(os.path.basename(place))[0]
        spec = importlib.util.spec_from_file_location(name, place)
        if spec is None or spec.loader is None:
            raise VramfitError(f"{flag}: {place!r} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        with _told(f"{flag}: importing {place}"):
            spec.loader.exec_module(module)
        return module
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        if importlib.util.find_spec(place) is None:
            raise ModuleNotFoundError(place)
    except (ImportError, ValueError):
        raise VramfitError(f"{flag}: there is no module {place!r}", "run it where `import " + place + "` works, or name a file: path/to/train.py:build") from None
    with _told(f"{flag}: importing {place}"):
        return importlib.import_module(place)


@contextlib.contextmanager
def _told(doing: str) -> Iterator[None]:
    """Reports errors of the user's code with their line, without our own frames."""
    try:
        yield
    except VramfitError:
        raise
    except Exception as problem:
        last = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{shown_path(last.filename)}:{last.lineno} in {last.name}"
        wants_gpu = "NVIDIA driver" in str(problem) or "not compiled with CUDA" in str(problem)
        hint = "build the model without `.cuda()`; `python -m vramfit run SCRIPT` runs a script that moves it to a GPU" if wants_gpu else ""
        raise VramfitError(f"{doing} failed at {where}: {type(problem).__name__}: {problem}", hint) from problem


def build(text: str) -> Built:
    """Builds the model from a function or class, or returns an existing one. Nothing is trained on the way."""
    with building(text):
        return _built(text)


def _built(text: str) -> Built:
    found = load(text)
    if isinstance(found, torch.nn.Module):
        return Built(found)
    if not callable(found):
        raise VramfitError(f"{text}: found {type(found).__name__}, needed a function that returns a model, a class of models, or a model")
    needed = _needed_arguments(found)
    if needed:
        raise VramfitError(
            f"{text}: found a function that needs {', '.join(needed)}, needed one without arguments",
            "write a function without arguments that calls it, and name that one",
        )
    try:
        with _empty_weights():
            made = found()
    except VramfitError:
        raise
    except Exception:
        # Some models read their weights while they are built.
        with _told(text):
            made = found()
    return _unpacked(text, made)


def _needed_arguments(function: Any) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters if one.default is one.empty and one.kind in kinds]


def _unpacked(text: str, made: Any) -> Built:
    names = ("model", "inputs", "targets", "loss")
    if isinstance(made, torch.nn.Module):
        return Built(made)
    given: Dict[str, Any] = {}
    if isinstance(made, dict) and set(made) <= set(names):
        given = made
    elif isinstance(made, tuple) and 1 <= len(made) <= len(names):
        given = dict(zip(names, made))
    if not isinstance(given.get("model"), torch.nn.Module):
        raise VramfitError(
            f"{text}: returned {type(made).__name__}, needed a model, or (model, inputs[, targets[, loss]])", "return the torch.nn.Module first",
        )
    return Built(**given)


@contextlib.contextmanager
def _empty_weights() -> Iterator[None]:
    """Moves weights to the meta device as soon as a module registers them, before they are initialised."""
    register = torch.nn.Module.register_parameter

    def registered(module: torch.nn.Module, name: str, parameter: Optional[torch.nn.Parameter]) -> None:
        register(module, name, parameter)
        if type(parameter) is torch.nn.Parameter and not parameter.is_meta:
            module._parameters[name] = torch.nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    torch.nn.Module.register_parameter = registered  # type: ignore
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore
