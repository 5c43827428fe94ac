"""The ``capture`` command."""

from __future__ import annotations

import argparse
import inspect
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import VramfitError
from ..progress import Progress

_PRECISIONS = ("as-built", "fp32", "bf16", "fp16", "amp-bf16", "amp-fp16")
_MODES = ("train", "eval", "eval-grad")
_LOSSES = ("cross-entropy", "mse", "mean")

_EXAMPLES = """examples:
  python -m vramfit capture torchvision.models:resnet50 --input x=8x3x224x224 --target 8:int64:1000
  python -m vramfit capture train.py:build --input ids=4x128:int64 --out model.vramfit
  vramfit estimate model.vramfit --batch 32 --gpu "RTX 3060"
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vramfit capture", description="Capture a model for `vramfit estimate`, without its weights and without a GPU.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "target", metavar="TARGET",
        help="package.module:name or file.py:name: a function that returns a model, or (model, inputs[, targets[, loss]]); a class; or a model",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="NAME=SHAPE[:DTYPE[:BOUND]]",
        help="an input by the name of the model's argument, such as x=4x3x224x224 or ids=4x128:int64:30522 (integers below 30522); float32 by default",
    )
    parser.add_argument("--target", dest="target_shape", metavar="SHAPE[:DTYPE[:BOUND]]", help="the targets of the loss; int64 by default")
    parser.add_argument("--loss", metavar="WHAT", help="cross-entropy (the default with --target), mse, mean, or package.module:function of outputs and targets")
    parser.add_argument("--size", action="append", default=[], metavar="NAME=A,B,…", help="names of sizes that can be chosen later, such as x=batch,3,h,w")
    parser.add_argument(
        "--share", type=float, metavar="PART", help="part of a mask, 0 to 1, that is true where the mask is computed from the weights",
    )
    parser.add_argument(
        "--precision", action="append", choices=_PRECISIONS, help="record only this precision; may be repeated. By default all, which takes longer",
    )
    parser.add_argument("--mode", action="append", choices=_MODES, help="record only this mode; may be repeated. By default all")
    parser.add_argument("--out", metavar="FILE", help="the file to write; by default, the target's name with .vramfit")
    return parser


def run(arguments: List[str]) -> int:
    """Captures the model and returns the exit code."""
    given = _parser().parse_args(arguments)
    path = given.out or given.target.rpartition(":")[2].rpartition(".")[2] + ".vramfit"
    with Progress() as progress:
        model, done = _capture(given, path, progress)
    symbols = ", ".join(f"{one['name']} {one['example']}" for one in done.contents["symbols"]) or "none"
    print(f"{path}: {type(model).__name__}, {sum(one.numel() for one in model.parameters()):,} parameters, {done.size:,} bytes")
    print(f"sizes to choose: {symbols}")
    for note in done.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"next: vramfit estimate {path} --gpu \"RTX 3060\"")
    return 0


def _capture(given: argparse.Namespace, path: str, progress: Progress) -> Tuple[Any, Any]:
    """Builds and captures the model."""
    progress.at("importing torch")
    try:
        import torch
    except ImportError:
        raise VramfitError("capture: found no torch in this Python, needed it to run the model's forward", "pip install torch") from None
    from ..capturing import capture
    from .target import build

    inputs = _written(given.input)
    progress.at(f"building {given.target}")
    built = build(given.target)
    # Ids that are valid in every embedding.
    tables = [part.num_embeddings for part in built.model.modules() if isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag))]
    bound = min(tables, default=2)
    made: Any = {one.name: one.tensor(bound) for one in inputs} or built.inputs
    if made is None:
        raise VramfitError(f"{given.target}: found no inputs, needed --input for what forward takes: {_signature(built.model)}", _example(built.model, given.target))
    _check_names(built.model, made)
    targets = _targets(given.target_shape) if given.target_shape else built.targets
    loss = _loss(given.loss, targets is not None and built.loss is None) or built.loss
    _refuse_float_indices(built.model)
    try:
        return built.model, capture(
            built.model, made, path, targets=targets, loss=loss, sizes=_sizes(given.size), progress=progress.at, share=given.share, only=_only(given),
        )
    except OSError as problem:
        raise VramfitError(f"{path}: {problem.strerror or problem}") from problem


def _only(given: argparse.Namespace) -> Any:
    """The pairs of precision and mode to record; None for all."""
    if not given.precision and not given.mode:
        return None
    return {(precision, mode) for precision in given.precision or _PRECISIONS for mode in given.mode or _MODES}


def _refuse_float_indices(model: Any) -> None:
    """Refuses float ids: a shape without a dtype is float32, and on the meta device no kernel would complain."""
    import torch

    def check(module: Any, arguments: Any) -> None:
        if arguments and isinstance(arguments[0], torch.Tensor) and arguments[0].is_floating_point():
            raise TypeError(f"an embedding looks up {str(arguments[0].dtype)[6:]} numbers, needed integers: write --input NAME=SHAPE:int64")

    for part in model.modules():
        if isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            part.register_forward_pre_hook(check)


def _written(texts: List[str]) -> List[Any]:
    from .shapes import parse

    inputs = [parse("--input", text) for text in texts]
    names = [one.name for one in inputs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise VramfitError(f"--input: found {twice[0]} twice, needed each name once")
    return inputs


def _targets(text: str) -> Any:
    from .shapes import parse

    # Most losses take class indices.
    return parse("--target", text if ":" in text else text + ":int64", "target").tensor(2)


def _signature(model: Any) -> str:
    try:
        return f"forward{inspect.signature(model.forward)}"
    except (TypeError, ValueError):
        return "forward(…)"


def _example(model: Any, target: str) -> str:
    try:
        first = next(iter(inspect.signature(model.forward).parameters))
    except (TypeError, ValueError, StopIteration):
        first = "x"
    shape = "4x128:int64" if "id" in first or "token" in first else "4x3x224x224"
    return f"such as: python -m vramfit capture {target} --input {first}={shape}"


def _check_names(model: Any, inputs: Any) -> None:
    if not isinstance(inputs, dict):
        return
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return
    names = [one.name for one in parameters]
    unknown = [name for name in inputs if name not in names]
    if unknown:
        raise VramfitError(f"--input: {type(model).__name__}.forward takes no {unknown[0]!r}", f"it is {_signature(model)}")


def _loss(text: Optional[str], has_bare_targets: bool) -> Optional[Callable[..., Any]]:
    import torch

    if text is None:
        text = "cross-entropy" if has_bare_targets else None
    if text is None:
        return None
    from ..applying.applied import first_output

    known: Dict[str, Callable[..., Any]] = {
        "cross-entropy": lambda outputs, targets: torch.nn.functional.cross_entropy(first_output(outputs), targets),
        "mse": lambda outputs, targets: torch.nn.functional.mse_loss(first_output(outputs), targets),
        "mean": lambda outputs, _: first_output(outputs).mean(),
    }
    if text in known:
        return known[text]
    if ":" not in text:
        raise VramfitError(f"--loss: found {text!r}, needed one of {', '.join(_LOSSES)}, or package.module:function")
    from .target import load

    found = load(text, "--loss")
    if isinstance(found, type) and issubclass(found, torch.nn.Module):
        found = found()
    if not callable(found):
        raise VramfitError(f"--loss: {text} is {type(found).__name__}, needed a function of outputs and targets")
    return found  # type: ignore[no-any-return]


def _sizes(texts: List[str]) -> Optional[Dict[str, Any]]:
    sizes: Dict[str, Any] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or not rest:
            raise VramfitError(f"--size: found {text!r}, needed NAME=A,B,…, such as x=batch,3,h,w")
        sizes[name] = tuple(int(part) if part.isdigit() else part for part in rest.split(","))
    return sizes or None
