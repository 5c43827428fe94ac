"""Finds expressions for integers that vary with the sizes of the inputs.

The model is recorded at a few sizes: a base, one or more other values for each symbol alone, and held-out sizes at which all
symbols differ. An expression is accepted only if it gives every recorded value, including the held-out ones.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Any, Dict, List, Optional, Sequence, Tuple

Point = Dict[str, int]
_LARGEST_DIVISOR = 64


class Plan:
    """The sizes to record at: the base first, then the axes, then the held-out points, the example's size last."""

    def __init__(self, examples: Dict[str, int], symbols: Sequence[str], extra: int, near: bool = False) -> None:
        self.symbols = list(symbols)
        self.extra = extra
        values = {symbol: _values(symbol, examples[symbol], extra, near) for symbol in symbols}
        base = dict(examples)
        base.update({symbol: values[symbol][0] for symbol in symbols})
        self.points: List[Point] = [base]
        self.axes: Dict[str, List[int]] = {}
        for symbol in symbols:
            self.axes[symbol] = [0]
            for value in values[symbol][1:-1]:
                self.axes[symbol].append(len(self.points))
                self.points.append(dict(base, **{symbol: value}))
        if symbols:
            held_out = dict(base)
            held_out.update({symbol: values[symbol][-1] for symbol in symbols})
            if extra:
                mixed = dict(base)
                mixed.update({symbol: values[symbol][1] for symbol in symbols})
                self.points.append(mixed)
            self.points.append(held_out)


def _values(symbol: str, example: int, extra: int, near: bool) -> List[int]:
    """The base, axis values and the held-out value of a symbol; the held-out one is the example's where that is over 1.

    Small values are fast. Values ``near`` the example take the same branches (attention windows, for example).
    """
    batch = symbol == "batch" or symbol.startswith("batch_")
    if batch or symbol == "seq" or symbol.startswith("seq_"):
        wanted = [3, 5, 2, 7, 4] if batch else [7, 11, 13, 8, 10]
        if near and not batch:
            wanted = [example - 1, example - 3, example - 2, example - 6, example - 5] if example > 8 else [example + step for step in (1, 3, 2, 6, 5)]
        elif not batch and example < 11:
            wanted = [value for value in range(example - 1, 1, -1)] + [example + 1, example + 2, example + 3]
    else:
        # With several strides of 2, the output size changes at a multiple of 64, just after it, or a little before.
        round_size = ((example + 4) // 64 + 1) * 64
        wanted = [round_size + step for step in (64, 0, 1, -1, -3, -4, 5, 32, 46)]
        extra = max(extra, 5)
    values = [value for value in wanted if value != example][: 2 + extra]
    return values + [example if example > 1 else max(values) + 1]


class Expressions:
    """Finds and caches expressions for vectors of recorded values."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._known: Dict[Tuple[int, ...], Optional[str]] = {}

    def fit(self, values: Tuple[int, ...]) -> Optional[object]:
        """An integer if all values are equal, else an expression, or None if none is found."""
        first = values[0]
        for value in values:
            if value != first:
                break
        else:
            return first
        if values not in self._known:
            self._known[values] = self._search(values)
        return self._known[values]

    def _search(self, values: Tuple[int, ...]) -> Optional[str]:
        plan = self.plan
        varying = [symbol for symbol in plan.symbols if any(values[at] != values[0] for at in plan.axes[symbol])]
        if not varying:
            return None
        factors = {symbol: self._along(symbol, [values[at] for at in plan.axes[symbol]]) for symbol in varying}
        found: List[str] = []
        for candidate in self._combined(values, varying, factors):
            if all(evaluate(candidate, point) == value for point, value in zip(plan.points, values)):
                if "//" not in candidate:
                    return candidate
                found.append(candidate)
        return found[0] if found and self._agree(found) else None

    def _agree(self, candidates: List[str]) -> bool:
        """Whether all forms that fit the recorded values agree at other sizes. If not, any of them would be a guess."""
        points = [{symbol: size + step for symbol, size in self.plan.points[-1].items()} for step in range(2 * _LARGEST_DIVISOR)]
        return all(evaluate(candidate, point) == evaluate(candidates[0], point) for candidate in candidates[1:] for point in points)

    def _along(self, symbol: str, values: List[int]) -> List[Tuple[str, Fraction]]:
        """Forms that the values along one axis can have, each with its factor."""
        sizes = [self.plan.points[at][symbol] for at in self.plan.axes[symbol]]
        return _monomials(symbol, sizes, values) + _lines(symbol, sizes, values) + _parabolas(symbol, sizes, values) \
            + _floors(symbol, sizes, values)

    def _combined(self, values: Tuple[int, ...], varying: List[str], factors: Dict[str, List[Tuple[str, Fraction]]]) -> List[str]:
        base = self.plan.points[0]
        found: List[str] = []
        if len(varying) == 1:
            return [_scaled(factor, form) for form, factor in factors[varying[0]] if factor.denominator == 1]
        choices: List[List[str]] = [[]]
        for symbol in varying:
            choices = [choice + [form] for choice in choices for form, _ in factors[symbol][:6]]
        for choice in choices:
            product = Fraction(1)
            for form in choice:
                product *= evaluate(form, base)
            if product:
                scale = Fraction(values[0]) / product
                if scale.denominator == 1:
                    found.append("*".join([str(scale)] * (scale != 1) + [_parenthesised(form) for form in choice]))
        found.extend(self._sum(values, varying))
        if len(varying) == 2 and self.plan.extra:
            found.extend(self._bilinear(values, varying))
        return found

    def _sum(self, values: Tuple[int, ...], varying: List[str]) -> List[str]:
        """``a*x + b*y + c`` from one step along each axis."""
        points, terms, rest = self.plan.points, [], Fraction(values[0])
        for symbol in varying:
            at = self.plan.axes[symbol][1]
            slope = Fraction(values[at] - values[0], points[at][symbol] - points[0][symbol])
            rest -= slope * points[0][symbol]
            terms.append((slope, symbol))
        if any(part.denominator != 1 for part, _ in terms) or rest.denominator != 1:
            return []
        text = "+".join(_scaled(slope, symbol) for slope, symbol in terms if slope)
        return [(text + (f"{int(rest):+d}" if rest else "")).replace("+-", "-")]

    def _bilinear(self, values: Tuple[int, ...], varying: List[str]) -> List[str]:
        """``a*x*y + b*x + c*y + d`` from the base, one point on each axis, and the mixed point."""
        plan, (first, second) = self.plan, varying
        base, mixed = plan.points[0], plan.points[-2]
        x0, y0, x1, y1 = base[first], base[second], mixed[first], mixed[second]
        along_x = next((at for at in plan.axes[first] if plan.points[at][first] == x1), None)
        along_y = next((at for at in plan.axes[second] if plan.points[at][second] == y1), None)
        if along_x is None or along_y is None:
            return []
        v00, v10, v01, v11 = values[0], values[along_x], values[along_y], values[-2]
        a = Fraction(v11 - v10 - v01 + v00, (x1 - x0) * (y1 - y0))
        b = Fraction(v10 - v00, x1 - x0) - a * y0
        c = Fraction(v01 - v00, y1 - y0) - a * x0
        d = v00 - a * x0 * y0 - b * x0 - c * y0
        if any(part.denominator != 1 for part in (a, b, c, d)):
            return []
        terms = [(a, f"{first}*{second}"), (b, first), (c, second)]
        text = "+".join(_scaled(factor, form) for factor, form in terms if factor)
        return [(text + (f"{int(d):+d}" if d else "")).replace("+-", "-")]


def _parenthesised(form: str) -> str:
    return f"({form})" if any(sign in form for sign in "+-/") else form


def _scaled(factor: Fraction, form: str) -> str:
    if factor == 1:
        return form
    if factor == -1:
        return f"-{_parenthesised(form)}"
    return f"{factor}*{_parenthesised(form)}"


def _monomials(symbol: str, sizes: List[int], values: List[int]) -> List[Tuple[str, Fraction]]:
    found = []
    for power in (1, 2, 3):
        factor = Fraction(values[0], sizes[0] ** power)
        if all(factor * size ** power == value for size, value in zip(sizes, values)):
            found.append(("*".join([symbol] * power), factor))
    return found


def _lines(symbol: str, sizes: List[int], values: List[int]) -> List[Tuple[str, Fraction]]:
    slope = Fraction(values[1] - values[0], sizes[1] - sizes[0])
    start = values[0] - slope * sizes[0]
    if not start or not slope or any(slope * size + start != value for size, value in zip(sizes, values)):
        return []
    common = Fraction(gcd(slope.numerator, start.numerator), _common(slope.denominator, start.denominator))
    slope, start = slope / common, start / common
    if slope < 0 and start < 0:
        slope, start, common = -slope, -start, -common
    text = f"{_scaled(slope, symbol)}{int(start):+d}" if slope > 0 else f"{int(start)}-{_scaled(-slope, symbol)}"
    return [(text, common)]


def _common(first: int, second: int) -> int:
    return first * second // gcd(first, second)


def _parabolas(symbol: str, sizes: List[int], values: List[int]) -> List[Tuple[str, Fraction]]:
    if len(sizes) < 4:
        return []
    (x0, x1, x2), (y0, y1, y2) = sizes[:3], values[:3]
    first, second = Fraction(y1 - y0, x1 - x0), Fraction(y2 - y0, x2 - x0)
    a = (first - second) / (x1 - x2)
    b = first - a * (x0 + x1)
    c = y0 - a * x0 * x0 - b * x0
    if not a or any(a * x * x + b * x + c != y for x, y in zip(sizes, values)):
        return []
    scale = _common(_common(a.denominator, b.denominator), c.denominator)
    terms = [(a * scale, f"{symbol}*{symbol}"), (b * scale, symbol), (c * scale, "1")]
    text = "+".join(_scaled(factor, form) if form != "1" else str(factor) for factor, form in terms if factor).replace("+-", "-")
    return [(text, Fraction(1, scale)), (f"({text})//{scale}", Fraction(1))] if scale > 1 else [(text, Fraction(1))]


def _floors(symbol: str, sizes: List[int], values: List[int]) -> List[Tuple[str, Fraction]]:
    """``(x + shift)//divisor + offset``, the form of sizes after convolutions and pooling."""
    if len(sizes) < 4:
        return []
    scale = 0
    for value in values:
        scale = gcd(scale, value)
    found = []
    for factor in sorted({scale, 1}, reverse=True) if scale else []:
        reduced = [value // factor for value in values]
        fitting = [(divisor, shift, reduced[0] - (sizes[0] + shift) // divisor)
                   for divisor in range(2, _LARGEST_DIVISOR + 1) for shift in range(-divisor + 1, 1)
                   if _is_floor(sizes, reduced, divisor, shift)]
        # A few sizes cannot distinguish 32 from 45, but strides are mostly 2.
        likely = [form for form in fitting if form[0] & (form[0] - 1) == 0]
        for divisor, shift, offset in likely or fitting:
            inner = f"({symbol}{shift:+d})" if shift else symbol
            found.append((f"{inner}//{divisor}" + (f"{offset:+d}" if offset else ""), Fraction(factor)))
    found.sort(key=lambda item: (len(item[0]), item[0]))
    return found[:8]


def _is_floor(sizes: List[int], values: List[int], divisor: int, shift: int) -> bool:
    offset = values[0] - (sizes[0] + shift) // divisor
    return all((size + shift) // divisor + offset == value for size, value in zip(sizes, values))


def evaluate(text: str, sizes: Point) -> int:
    """Evaluates an expression at given sizes."""
    return int(eval(_compiled(text), {"__builtins__": {}}, dict(sizes)))  # noqa: S307 - only expressions created above


_CODE: Dict[str, Any] = {}


def _compiled(text: str) -> Any:
    code = _CODE.get(text)
    if code is None:
        code = _CODE[text] = compile(text, "<size>", "eval")
    return code
