"""HTML fragments for notebooks. They load nothing from the network and use the notebook's colours."""

from __future__ import annotations

from html import escape
from typing import Iterable, List, Mapping, Optional, Sequence

from .units import human

_COLOURS = {"fits": "#2e9e5b", "too-close": "#c98a00", "does-not-fit": "#d2463c", None: "#7a7a7a"}
# Order and colours of the calculator's bar (`vramfit web`).
_BARS = {
    "parameters": "#3b6fb6", "gradients": "#7a4fb0", "optimizer": "#c2478b", "activations": "#2f9e6e", "outputs": "#d9542b", "inputs": "#d99a21",
    "temporary": "#4aa8c9", "workspace": "#a3b43a", "communication": "#8c6d4f", "rounding": "#b58be0", "cached": "#9aa4b5", "context": "#777f8c",
}
_NAMES = {"workspace": "workspaces", "cached": "cached, unused", "context": "CUDA context"}
_LIMIT = "#e0402a"


def page(title: str, verdict: Optional[str], *parts: str) -> str:
    """A box with a headline. Text has the notebook's own colour, light or dark."""
    colour = _COLOURS.get(verdict, _COLOURS[None])
    return (
        f'<div style="border-left:4px solid {colour};padding:.4em .9em;max-width:56em;color:inherit;font-family:system-ui,sans-serif;'
        f'line-height:1.4"><div style="font-weight:600;margin-bottom:.4em">{escape(title)}</div>{"".join(parts)}</div>'
    )


def table(rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table. All cells of a row except the first are numbers."""
    def row(cells: Sequence[str], tag: str) -> str:
        looks = ("text-align:left;", "text-align:right;font-variant-numeric:tabular-nums;")
        return "<tr style=\"background:none\">" + "".join(
            f'<{tag} style="{looks[at > 0]}padding:.1em 1.2em .1em 0;font-weight:{"600" if tag == "th" else "400"}">{escape(cell)}</{tag}>'
            for at, cell in enumerate(cells)
        ) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f'<table style="border-collapse:collapse;margin:.3em 0;color:inherit">{row(head, "th") if head else ""}{body}</table>'


def bars(sizes: Mapping[str, int], capacity: Optional[int]) -> str:
    """The calculator's bar: what the memory consists of, against the line of the capacity, which it may cross."""
    parts = [(name, sizes[name]) for name in _BARS if sizes.get(name)]
    total = sum(size for _, size in parts)
    scale = max(total, capacity or 0) * (1.02 if capacity else 1) or 1
    pieces: List[str] = []
    legend: List[str] = []
    for name, size in parts:
        shown, colour = _NAMES.get(name, name), _BARS[name]
        pieces.append(f'<div title="{shown} {human(size)}" style="width:{100 * size / scale:.3f}%;background:{colour}"></div>')
        legend.append(
            f'<span style="margin-right:1em;white-space:nowrap"><span style="display:inline-block;width:.7em;height:.7em;border-radius:2px;'
            f'background:{colour};margin-right:.35em"></span>{shown} <b>{human(size)}</b></span>'
        )
    line = ""
    if capacity:
        at = 100 * capacity / scale
        if total > capacity:
            stripes = f"repeating-linear-gradient(135deg,{_LIMIT}88 0 4px,transparent 4px 9px)"
            line = f'<div style="position:absolute;top:0;bottom:0;left:{at:.3f}%;width:{100 * (total - capacity) / scale:.3f}%;background:{stripes}"></div>'
        side = f"right:{100 - at:.3f}%;padding-right:.4em" if at > 50 else f"left:{at:.3f}%;padding-left:.4em"
        line += (
            f'<div style="position:absolute;top:-.25em;bottom:-.25em;left:{at:.3f}%;border-left:2px solid {_LIMIT}"></div>'
            f'<div style="position:absolute;top:-1.5em;{side};font-size:.85em;font-weight:600;white-space:nowrap">{human(capacity)}</div>'
        )
    words = f"{human(total)} of {human(capacity)}" if capacity else human(total)
    return (
        f'<div role="img" aria-label="{words}" style="position:relative;margin:{"1.7em" if capacity else ".4em"} 0 .5em">'
        f'<div style="display:flex;height:1.5em;border-radius:4px;overflow:hidden;background:#8882">{"".join(pieces)}</div>{line}</div>'
        f'<div style="font-size:.9em">{"".join(legend)}</div>'
    )


def note_list(notes: Iterable[str]) -> str:
    """Lines in small type."""
    lines = "".join(f"<div>{escape(note)}</div>" for note in notes if note)
    return f'<div style="font-size:.85em;opacity:.75;margin-top:.4em">{lines}</div>' if lines else ""


def folded(title: str, code: str) -> str:
    """Code that unfolds on a click."""
    return (
        f'<details style="margin:.3em 0"><summary style="cursor:pointer">{escape(title)}</summary>'
        f'<pre style="overflow:auto;font-size:.85em;color:inherit;background:none">{escape(code)}</pre></details>'
    )
