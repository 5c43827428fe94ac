"""Aligns recordings of the same step at several sizes, call by call, into one program with sizes as expressions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from .recording import Recording
from .session import Session
from .symbols import Expressions
from .tensors import Kind


class Misaligned(Exception):  # noqa: N818 - it says what is, and is caught here
    """The recordings differ in more than integers."""


class Unexpressed(Misaligned):
    """The recordings agree, except for an integer for which no expression was found."""


class Program:
    """A step with sizes as expressions."""

    def __init__(self) -> None:
        self.types: List[Any] = []
        self.tensors: List[Any] = []
        self.steps: List[Any] = []
        self.constants: List[int] = []
        self.outputs: Any = None
        self.loss: Optional[str] = None
        self.held: List[int] = []
        self.backwards: List[Dict[str, Any]] = []


class Alignment:
    """Aligns recordings. The last one is at the example's sizes, and its floats are kept."""

    def __init__(self, session: Session, expressions: Expressions) -> None:
        self.session = session
        self.expressions = expressions

    def check(self, one: Recording, other: Recording) -> None:
        """Raises if the two recordings call different operators."""
        if len(one.steps) != len(other.steps) or len(one.rows) != len(other.rows):
            raise Misaligned(self._first_difference(one, other))

    def merge(self, recordings: Sequence[Recording]) -> Program:
        """Returns one program for all sizes."""
        program = Program()
        last = recordings[-1]
        for recording in recordings:
            self.check(recording, last)
            if len(recording.backwards) != len(last.backwards):
                raise Misaligned("a custom autograd function runs its backward at one size and not at another")
            if recording.outputs != last.outputs or recording.loss != last.loss or recording.held != last.held:
                raise Misaligned("what the step returns or keeps differs between sizes")
        self._merge_rows(program, recordings)
        for steps in zip(*(recording.steps for recording in recordings)):
            program.steps.append(self._merge_step(steps))
        program.backwards = [self._merge_backward(backwards) for backwards in zip(*(recording.backwards for recording in recordings))]
        program.constants, program.outputs, program.loss, program.held = last.constants, last.outputs, last.loss, last.held
        return program

    def _merge_backward(self, backwards: Tuple[Any, ...]) -> Dict[str, Any]:
        first = backwards[0]
        if any(one._replace(steps=[]) != first._replace(steps=[]) or len(one.steps) != len(first.steps) for one in backwards):
            raise Misaligned("the backward of a custom autograd function differs between sizes")
        steps = [self._merge_step(steps) for steps in zip(*(one.steps for one in backwards))]
        return {**first._asdict(), "steps": steps}

    def _first_difference(self, one: Recording, other: Recording) -> str:
        for first, second in zip(one.steps, other.steps):
            if first[:2] != second[:2]:
                step = first if first[0] == "call" else second
                if step[0] == "call":
                    return f"{self.session.sources.text(step[4])}: {self.session.rows[step[1]][0]} is called at one size and not at another"
                return f"the steps differ: {first[:2]} and {second[:2]}"
        return "one recording goes on where the other ends"

    def _merge_rows(self, program: Program, recordings: Sequence[Recording]) -> None:
        table: Dict[str, int] = {}
        merged: Dict[Tuple[Kind, ...], int] = {}
        for number, rows in enumerate(zip(*(recording.rows for recording in recordings))):
            kinds = tuple(row[0] for row in rows)
            at = merged.get(kinds)
            if at is None:
                entry = self._merge_kinds(kinds, number)
                text = repr(entry)
                at = table.setdefault(text, len(program.types))
                if at == len(program.types):
                    program.types.append(entry)
                merged[kinds] = at
            first = rows[0]
            if any(row[1] != first[1] or row[3] != first[3] for row in rows):
                raise Misaligned(f"tensor %{number} shares its storage at one size and not at another")
            offset = self._integer(tuple(row[2] for row in rows), f"the storage offset of %{number}")
            program.tensors.append([at, first[1], offset, first[3]])

    def _merge_kinds(self, kinds: Tuple[Kind, ...], number: int) -> List[Any]:
        first = kinds[0]
        if any(kind.dtype is not first.dtype or len(kind.shape) != len(first.shape) for kind in kinds):
            raise Misaligned(f"tensor %{number} has another dtype or number of dimensions at another size")
        what = f"a size of %{number}"
        shape = [self._integer(sizes, what) for sizes in zip(*(kind.shape for kind in kinds))]
        entry: List[Any] = [str(first.dtype).replace("torch.", ""), shape]
        if not all(_contiguous(kind) for kind in kinds):
            entry.append([self._integer(strides, f"a stride of %{number}") for strides in zip(*(kind.stride for kind in kinds))])
        return entry

    def _integer(self, values: Tuple[int, ...], what: str) -> Any:
        fitted = self.expressions.fit(values)
        if fitted is None:
            raise Unexpressed(f"{what} is {', '.join(map(str, values))} at the recorded sizes, for which no expression was found")
        return fitted

    def _merge_step(self, steps: Tuple[Any, ...]) -> List[Any]:
        first = steps[0]
        kind = first[0]
        for step in steps:
            if step[0] != kind:
                raise Misaligned(f"the steps differ: {first[:2]} and {step[:2]}")
        if kind == "call":
            if any(step[1] != first[1] for step in steps):
                names = sorted({self.session.rows[step[1]][0] for step in steps})
                raise Misaligned(f"{self.session.sources.text(first[4])}: {' at one size, '.join(names)} at another")
            where = first[4]
            arguments = [self._merge_value(values, where) for values in zip(*(step[2] for step in steps))]
            if any(step[3] != first[3] or step[5] != first[5] for step in steps):
                raise Misaligned(f"{self.session.sources.text(where)}: the results of {self.session.rows[first[1]][0]} differ between sizes")
            return ["call", first[1], arguments, first[3], where] + ([first[5]] if first[5] else [])
        if any(step != first for step in steps):
            raise Misaligned(f"the steps differ: {first} and {next(step for step in steps if step != first)}")
        return list(first)

    def _merge_value(self, values: Tuple[Any, ...], where: int) -> Any:
        first = values[0]
        kind = type(first)
        if kind is tuple or kind is list:
            if any(type(value) is not kind or len(value) != len(first) for value in values):
                raise Misaligned(f"{self.session.sources.text(where)}: an argument differs in length between sizes")
            return [self._merge_value(items, where) for items in zip(*values)]
        if kind is int and all(type(value) is int for value in values):
            return self._integer(values, f"{self.session.sources.text(where)}: an argument")
        if kind is float and all(type(value) is float for value in values):
            return _plain_float(values[-1])
        if any(type(value) is not kind or value != first for value in values):
            raise Misaligned(f"{self.session.sources.text(where)}: an argument is {first!r} at one size and differs at another")
        return first


def with_flags_of(program: Program, own: Recording, other: Recording) -> Optional[Program]:
    """The program with the flags of another recording at the same size, if the two differ only in flags."""
    if own.steps != other.steps or own.backwards != other.backwards or len(own.rows) != len(other.rows):
        return None
    if (own.outputs, own.loss, own.held, own.constants) != (other.outputs, other.loss, other.held, other.constants):
        return None
    for first, second in zip(own.rows, other.rows):
        one, two = first[0], second[0]
        if (one.dtype, one.shape, one.stride) != (two.dtype, two.shape, two.stride) or first[1:3] != second[1:3]:
            return None
    again = Program()
    again.types, again.steps = program.types, program.steps
    again.tensors = [row[:3] + [recorded[3]] for row, recorded in zip(program.tensors, other.rows)]
    again.backwards = program.backwards
    again.constants, again.outputs, again.loss, again.held = program.constants, program.outputs, program.loss, program.held
    return again


def _plain_float(value: float) -> Any:
    """JSON has no infinity and no NaN."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"float": "nan" if value != value else "inf" if value > 0 else "-inf"}
    return value


def _contiguous(kind: Kind) -> bool:
    expected = 1
    for size, stride in zip(reversed(kind.shape), reversed(kind.stride)):
        if stride != expected:
            return False
        expected *= max(size, 1)
    return True
