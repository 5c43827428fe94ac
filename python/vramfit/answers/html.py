"""HTML fragments for notebooks. They load nothing from the network and use the notebook's colours."""

from __future__ import annotations

from html import escape
from typing import Iterable, List, Optional, Sequence, Tuple

from .units import human

_COLOURS = {"fits": "#2e9e5b", "too-close": "#c98a00", "does-not-fit": "#d2463c", None: "#7a7a7a"}
_BARS = {
    "parameters": "#4c78a8", "gradients": "#f58518", "optimizer": "#54a24b", "activations": "#b279a2", "workspace": "#9d755d",
    "temporary": "#e45756", "inputs": "#72b7b2", "outputs": "#eeca3b", "rounding": "#9a9a9a",
}


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


def bars(parts: Sequence[Tuple[str, int]], total: int) -> str:
    """One bar of all parts, with a legend."""
    pieces: List[str] = []
    names: List[str] = []
    for name, size in parts:
        colour = _BARS.get(name, "#9a9a9a")
        share = 100 * size / total if total else 0
        pieces.append(f'<div title="{escape(name)} {human(size)}" style="width:{share:.3f}%;background:{colour}"></div>')
        names.append(
            f'<span style="margin-right:1em;white-space:nowrap"><span style="display:inline-block;width:.7em;height:.7em;'
            f'background:{colour};margin-right:.35em"></span>{escape(name)} {human(size)}</span>'
        )
    return (
        f'<div style="display:flex;height:1.1em;border-radius:3px;overflow:hidden;margin:.4em 0">{"".join(pieces)}</div>'
        f'<div style="font-size:.9em">{"".join(names)}</div>'
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
