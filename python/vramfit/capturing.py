"""``vramfit.capture``: from a module and example inputs to a capture file."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from .align import Alignment, Misaligned, Program, Unexpressed, with_flags_of
from .assumptions import Assumed
from .errors import CaptureError
from .file_format import Document, write
from .inputs import Inputs
from .model_state import Entry
from .recording import PRECISIONS, Precision, Recorded, Recording, step
from .refusals import refuse
from .session import Session
from .symbols import Expressions, Plan

MODES = ("train", "eval", "eval-grad")
_ONE_AT_A_TIME = threading.RLock()
# Steps of tries that failed, for each variant, after which only the batch is tried as a symbol: a few seconds' work.
_ENOUGH = 25_000
_WHAT_IS_CHOSEN = {Assumed.LEAST: "that nothing is chosen by the assumed values", Assumed.MOST: "that everything is chosen by the assumed values"}


class Capture:
    """A finished capture: its path and contents."""

    def __init__(self, path: str, size: int, contents: Dict[str, Any]) -> None:
        self.path = path
        self.size = size
        self.contents = contents

    @property
    def symbols(self) -> List[str]:
        """The names of the sizes that can vary."""
        return [symbol["name"] for symbol in self.contents["symbols"]]

    @property
    def notes(self) -> List[str]:
        """Assumptions and limits of this capture, as sentences."""
        causes = [cause for variant in self.contents["variants"] for cause in variant.get("causes", ())]
        return list(dict.fromkeys([*self.contents["notes"], *causes]))

    @property
    def variants(self) -> List[Tuple[str, str]]:
        """The recorded precisions and modes."""
        return [(variant["precision"], variant["mode"]) for variant in self.contents["variants"] if "assumed" not in variant]

    def __repr__(self) -> str:
        return f"Capture({self.path!r}, {self.size} bytes, symbols {self.symbols}, {len(self.variants)} variants)"


def capture(
    model: torch.nn.Module, inputs: Any, path: Any, *, targets: Any = None, loss: Optional[Callable[..., Any]] = None,
    sizes: Optional[Mapping[str, Sequence[Any]]] = None, only: Optional[Collection[Tuple[str, str]]] = None,
    progress: Optional[Callable[[str], None]] = None, share: Optional[float] = None,
) -> Capture:
    """Records one training step of ``model`` without its weights and without a GPU, and writes it to ``path``.

    ``inputs`` is a dict of keyword arguments, a tuple, or one tensor. ``loss(outputs, targets)`` is needed if the model does not
    return a loss itself. By default dimension 0 of every input and target is ``batch``, and dimension 1 of integer ones is
    ``seq``; ``sizes={"x": ("batch", 3, "h", "w")}`` names others. ``only`` gives the pairs of precision and mode to record, such
    as ``{("as-built", "train")}``; without it all of them are recorded, which takes longer. ``progress`` is called with a line
    of text at the start of each stage. ``share`` is the part of a mask, from 0 to 1, that is assumed to be true where the mask
    is computed from the weights; without it the mask follows from evenly spread values.
    """
    refuse(model)
    if share is not None and not 0 <= share <= 1:
        raise CaptureError(f"share: found {share!r}, needed a number from 0 to 1", "share=0.25 assumes that a quarter of each mask is true")
    with _ONE_AT_A_TIME:
        session = Session(step.__code__, share)
        recorded = Recorded(model, Inputs(model, inputs, targets, sizes), loss, session)
        with recorded:
            document = _record_all(recorded, session, _Wanted(only, _native(recorded)), progress or _tell_nobody)
        contents = document.contents()
        size = write(path, contents)
    return Capture(str(path), size, contents)


def _tell_nobody(stage: str) -> None:
    pass


class _Wanted:
    """The pairs of precision and mode to record."""

    def __init__(self, only: Optional[Collection[Tuple[str, str]]], native: Optional[str]) -> None:
        self.native = native
        every = {(precision.name, mode) for precision in PRECISIONS for mode in MODES}
        unknown = [pair for pair in only or () if tuple(pair) not in every]
        if unknown:
            raise CaptureError(
                f"only: found {unknown[0]!r}, which is not a pair of a precision and a mode",
                f"precisions are {', '.join(precision.name for precision in PRECISIONS)}; modes {', '.join(MODES)}",
            )
        pairs = every if only is None else {tuple(pair) for pair in only}
        self._pairs = {(native if native and name == "as-built" else name, mode) for name, mode in pairs}
        self._may_miss = only is None

    def has(self, precision: str, mode: str) -> bool:
        """Whether this pair is to be recorded."""
        return (precision, mode) in self._pairs

    def __len__(self) -> int:
        return len(self._pairs)

    def must(self, precision: str, mode: str) -> bool:
        """Whether the capture must fail without this pair."""
        return not self._may_miss or (mode == "train" and precision == (self.native or "as-built"))


def _record_all(recorded: Recorded, session: Session, wanted: _Wanted, tell: Callable[[str], None]) -> Document:
    """Records all variants with as many symbols as possible."""
    reasons: List[str] = []

    def tell_try(stage: str) -> None:
        tell(f"{stage}, try {len(reasons) + 1}" if reasons else stage)

    failed, enough = 0, _ENOUGH * len(wanted)
    for symbols in _subsets(list(recorded.inputs.examples)):
        if failed > enough and symbols not in ([], ["batch"]):
            continue
        # Tries cropped and thinned-out examples, small sizes and sizes near the example's, until one takes the example's branches.
        for near, spread in ((False, False), (False, True), (True, False), (True, True)) if symbols else ((False, False),):
            if failed > enough and (near or spread):
                break
            recorded.inputs.spread = spread
            for extra in (0, 3):
                before = recorded.effort
                try:
                    return _record(recorded, session, Plan(recorded.inputs.examples, symbols, extra, near), reasons, wanted, tell_try)
                except Unexpressed as reason:
                    reasons.append(str(reason))
                    failed += recorded.effort - before
                except Misaligned as reason:
                    reasons.append(str(reason))
                    failed += recorded.effort - before
                    break
                except CaptureError as problem:
                    if not symbols:
                        raise
                    failed += recorded.effort - before
                    if not reasons:
                        _check_example(recorded, wanted)
                    reasons.append(problem.message)
                    break
    raise CaptureError(f"the model cannot be captured: {reasons[-1]}", "please report this")


def _subsets(symbols: List[str]) -> List[List[str]]:
    """All symbols, then all but one, and so on down to none."""
    found: List[List[str]] = []
    for count in range(len(symbols), -1, -1):
        found.extend(list(chosen) for chosen in itertools.combinations(symbols, count))
    return found


def _record(recorded: Recorded, session: Session, plan: Plan, reasons: List[str], wanted: _Wanted, tell: Callable[[str], None]) -> Document:
    expressions = Expressions(plan)
    alignment = Alignment(session, expressions)
    document = Document({})
    missing: List[str] = []
    evaluated: Dict[str, Recording] = {}
    programs: Dict[str, Program] = {}
    count = 0
    for mode in MODES:
        for precision in PRECISIONS:
            if not wanted.has(precision.name, mode):
                continue
            count += 1
            tell(f"recording {precision.name} {mode}, {count} of {len(wanted)}")
            program: Optional[Program] = None
            try:
                recordings = [recorded.run(precision, mode, plan.points[0])]
                if mode == "eval":
                    evaluated[precision.name] = recordings[0]
                elif mode == "eval-grad" and precision.name in evaluated:
                    program = with_flags_of(programs[precision.name], evaluated[precision.name], recordings[0])
                if program is None:
                    recordings = _at_all_sizes(recorded, alignment, plan, precision, mode, recordings[0])
            except CaptureError as problem:
                if wanted.must(precision.name, mode):
                    raise
                _must_fail(recorded, precision, mode)
                missing.append(f"{precision.name} {mode}: not recorded: {problem.message}")
                continue
            if program is None:
                program = programs[precision.name] = alignment.merge(recordings)
            # The share of a mask may differ a little between sizes; the example's, which is the last, is named.
            causes = list({cause.partition("; a share of")[0]: cause for recording in recordings for cause in recording.causes}.values())
            bounds: Dict[Assumed, Optional[Program]] = {}
            if any(recording.assumes for recording in recordings):
                bounds = {assumed: _assuming(recorded, session, alignment, plan, precision, mode, assumed) for assumed in (Assumed.LEAST, Assumed.MOST)}
                causes += [f"the bounds do not cover {_WHAT_IS_CHOSEN[assumed]}: the model does not run so" for assumed in bounds if bounds[assumed] is None]
            added = [document.add(precision.name, mode, _autocast_name(precision), program, causes)]
            for assumed, other in bounds.items():
                if other is not None and vars(other) != vars(program):
                    added.append(document.add(precision.name, mode, _autocast_name(precision), other, causes, assumed.value))
            if precision.name == wanted.native:
                for variant in added:
                    document.repeat("as-built", variant)
    for text in missing:
        session.note(text)
    document.head.update(_head(recorded, session, plan, reasons))
    return document


def _assuming(
    recorded: Recorded, session: Session, alignment: Alignment, plan: Plan, precision: Precision, mode: str, assumed: Assumed,
) -> Optional[Program]:
    """The same pass with other values where its way depends on them; ``None`` where the model does not run with them."""
    session.assumed = assumed
    try:
        return alignment.merge(_at_all_sizes(recorded, alignment, plan, precision, mode, recorded.run(precision, mode, plan.points[0])))
    except (CaptureError, Misaligned, Unexpressed):
        return None
    finally:
        session.assumed = Assumed.EXPECTED


def _at_all_sizes(recorded: Recorded, alignment: Alignment, plan: Plan, precision: Precision, mode: str, first: Recording) -> List[Recording]:
    """Recordings at all points of the plan, in its order. The example is recorded second: it tells soonest whether the calls are the same."""
    found: Dict[int, Recording] = {0: first}
    count = len(plan.points)
    for at in (count - 1, *range(1, count - 1)):
        if at not in found:
            found[at] = recorded.run(precision, mode, plan.points[at])
            alignment.check(first, found[at])
    return [found[at] for at in range(count)]


def _check_example(recorded: Recorded, wanted: _Wanted) -> None:
    """Raises if the model cannot be recorded at the example's own sizes either."""
    for mode in MODES:
        for precision in PRECISIONS:
            if wanted.has(precision.name, mode) and wanted.must(precision.name, mode):
                recorded.run(precision, mode, dict(recorded.inputs.examples))
                return


def _must_fail(recorded: Recorded, precision: Precision, mode: str) -> None:
    """Checks that a variant fails at the example's own sizes too; raises if it fails only at others."""
    try:
        recorded.run(precision, mode, dict(recorded.inputs.examples))
    except CaptureError:
        return
    raise Misaligned(f"{precision.name} {mode} runs at the example's sizes and fails at others")


def _autocast_name(precision: Precision) -> Optional[str]:
    return None if precision.autocast is None else str(precision.autocast).replace("torch.", "")


def _native(recorded: Recorded) -> Optional[str]:
    """The precision in which the model is built, if it is one of those recorded anyway."""
    entries = [*recorded.state.parameters, *(buffer for buffer in recorded.state.buffers if buffer.quantized is None)]
    found = {entry.original.dtype for entry in entries if entry.original.is_floating_point()}
    found |= {leaf.dtype for leaf in recorded.inputs.leaves if leaf.dtype.is_floating_point and leaf.is_input}
    if len(found) > 1:
        return None
    for precision in PRECISIONS[1:4]:
        if not found or precision.dtype in found:
            return precision.name
    return None


def _head(recorded: Recorded, session: Session, plan: Plan, reasons: List[str]) -> Dict[str, Any]:
    """The part of the file that does not depend on the precision."""
    from . import __version__

    examples = recorded.inputs.examples
    leaves = recorded.inputs.leaves
    dropped = [symbol for symbol in examples if symbol not in plan.symbols]
    notes = session.notes + recorded.state.notes()
    if dropped:
        reason = reasons[0] if reasons else "unknown"
        notes.insert(0, f"{', '.join(dropped)}: recorded at the example's size only, because {reason}")
    entries = [*recorded.state.parameters, *recorded.state.buffers]
    numbers = {id(entry.original): number for number, entry in enumerate(entries)}
    return {
        "producer": {"vramfit": __version__, "torch": torch.__version__.split("+")[0]},
        "model": type(recorded.model).__name__,
        "symbols": [
            {
                "name": symbol, "example": examples[symbol],
                "recorded": sorted({point[symbol] for point in plan.points}),
                "dims": [[leaf.name, dim] for leaf in leaves for dim, name in enumerate(leaf.symbols) if name == symbol],
            }
            for symbol in plan.symbols
        ],
        "notes": notes,
        "modules": [list(row) for row in recorded.modules.rows],
        "operators": [[name, arguments] for name, arguments in session.rows],
        "sources": [list(row) for row in session.sources.rows],
        "parameters": [_parameter(entry, numbers) for entry in recorded.state.parameters],
        "buffers": [
            {"names": entry.names, "tensor": numbers[id(entry.original)], "shape": list(entry.original.shape),
             "dtype": _dtype(entry.original), "persistent": entry.persistent}
            for entry in recorded.state.buffers
        ],
        "move_order": [numbers[id(tensor)] for tensor in recorded.state.move_order()],
        "inputs": _leaves(recorded, plan, True, len(entries)),
        "targets": _leaves(recorded, plan, False, len(entries)),
    }


def _parameter(entry: Entry, numbers: Dict[int, int]) -> Dict[str, Any]:
    """A parameter as it is stored on the GPU."""
    weight, quantized = entry.original, entry.quantized
    stored = weight if quantized is None else quantized.packed()
    described = {
        "names": entry.names, "tensor": numbers[id(weight)], "shape": list(stored.shape), "dtype": _dtype(stored), "requires_grad": weight.requires_grad,
    }
    if quantized is not None:
        described["quantized"] = quantized.described(numbers)
    return described


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _leaves(recorded: Recorded, plan: Plan, is_input: bool, start: int) -> List[Dict[str, Any]]:
    return [
        {
            "name": leaf.name, "tensor": start + at, "dtype": str(leaf.dtype).replace("torch.", ""), "example": list(leaf.shape),
            "shape": [symbol if symbol in plan.symbols else size for symbol, size in zip(leaf.symbols, leaf.shape)],
        }
        for at, leaf in enumerate(recorded.inputs.leaves) if leaf.is_input == is_input
    ]
