"""Makes docs/coverage.md from the lines of sweep.py.

    python3 validation/sweep/table.py validation/sweep/lines.jsonl.gz
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
from pathlib import Path
from typing import Any, Dict, Iterable, List, Sequence

ROOT = Path(__file__).resolve().parents[2]
ORDER = ("torchvision", "timm", "torchaudio", "diffusers", "transformers")


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", type=Path, help="what sweep.py wrote")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "coverage.md")
    arguments = parser.parse_args()
    found: Dict[Any, Dict[str, Any]] = {}
    opened = gzip.open if arguments.lines.suffix == ".gz" else open
    with opened(arguments.lines, "rt") as stream:
        texts = stream.read().splitlines()
    for text in texts:
        line = json.loads(text)
        found[line["library"], line["model"]] = line
    arguments.out.write_text(page(sorted(found.values(), key=lambda line: (ORDER.index(line["library"]), line["model"]))))


def page(lines: List[Dict[str, Any]]) -> str:
    """The whole page."""
    runs = [line for line in lines if _runs(line)]
    answered = [line for line in runs if line["answered"]]
    parts = [
        "# Coverage", "",
        "Which models vramfit can answer for. `validation/sweep/sweep.py` builds each model without weights and with few layers, captures",
        "one training step in its own precision, and estimates it. It needs no GPU, and says nothing about accuracy: for that, see",
        "[estimate-accuracy.md](estimate-accuracy.md). This page is made by `validation/sweep/table.py`.", "",
        f"**{len(answered)} of {len(runs)} models that run with the sweep's example are answered ({_percent(len(answered), len(runs))}).**",
        f"{len(lines) - len(runs)} more refuse the example: they raise the same error without vramfit, need another package, or cannot be built",
        "from their default configuration.", "",
        *_by_library(lines), "",
        "*swept*: the order is random, so a part is a sample. *run*: the model runs with the example. *answered*: an estimate was made.",
        "*exact*: it is called exact: all operators have rules and nothing was assumed. *assumed*: a value of the example, a random number",
        "or a value computed from the weights decides on a size or a branch. *capture*: seconds at one precision, median and longest:",
        "CPU time, or for lines without `cpu_s` the wall time of a busy machine.", "",
        f"{sum(bool(line.get('again')) for line in lines)} lines, those that had no answer or an operator without a rule, were made again later; the others are older than many",
        "rules, so that more of them may be exact now, or fewer.", "",
        "## Operators without a rule", "",
        *_operators(answered), "",
        "## Custom autograd functions", "",
        *_functions(answered), "",
        "## Slowest captures", "",
        *_slowest(answered), "",
        "## Not answered", "",
        *_rows(("library", "model", "reason"), ((line["library"], line["model"], _reason(line)) for line in runs if not line["answered"])), "",
        "## Examples that models refuse", "",
        *_rows(("library", "model", "reason"), ((line["library"], line["model"], _reason(line)) for line in lines if not _runs(line))), "",
    ]
    return "\n".join(parts)


def _runs(line: Dict[str, Any]) -> bool:
    """Whether the model runs with the sweep's example, as far as is known."""
    return bool(line["answered"]) or not (line.get("refused") or line.get("stage") == "build" or line["error"] == "no example")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _by_library(lines: List[Dict[str, Any]]) -> List[str]:
    rows = []
    for library in [*ORDER, None]:
        own = [line for line in lines if library in (None, line["library"])]
        if not own:
            continue
        runs = [line for line in own if _runs(line)]
        answered = [line for line in runs if line["answered"]]
        seconds = sorted(_seconds(line) for line in answered) or [0.0]
        rows.append((
            library or "all", _of(own), len(own), len(runs), len(answered), _percent(len(answered), len(runs)), sum(line["exact"] for line in answered),
            sum(bool(line["unmodelled"]) for line in answered), sum(bool(line["causes"]) for line in answered),
            f"{seconds[len(seconds) // 2]:.1f} / {seconds[-1]:.0f}",
        ))
    names = ("library", "models", "swept", "run", "answered", "", "exact", "with operators without a rule", "assumed", "capture, s")
    return _rows(names, rows)


def _of(lines: List[Dict[str, Any]]) -> int:
    """How many models the libraries of these lines have."""
    return sum({line["library"]: line["of"] for line in lines}.values())


def _seconds(line: Dict[str, Any]) -> float:
    return float(line.get("cpu_s", line["capture_s"]))


def _operators(lines: List[Dict[str, Any]]) -> List[str]:
    models: Dict[str, List[str]] = collections.defaultdict(list)
    for line in lines:
        for entry in line["unmodelled"]:
            name = entry.split(" ×")[0]
            if name not in line["functions"]:
                models[name].append(f"{line['model']}")
    ranked = sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))
    return _rows(("operator", "models", "such as"), ((f"`{name}`", len(users), ", ".join(users[:3])) for name, users in ranked))


def _functions(lines: List[Dict[str, Any]]) -> List[str]:
    models: Dict[str, List[str]] = collections.defaultdict(list)
    for line in lines:
        for name in line["functions"]:
            models[name].append(line["model"])
    ranked = sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))
    return _rows(("function", "models", "such as"), ((f"`{name}`", len(users), ", ".join(users[:3])) for name, users in ranked))


def _slowest(lines: List[Dict[str, Any]]) -> List[str]:
    slow = sorted(lines, key=_seconds, reverse=True)[:15]
    return _rows(("library", "model", "seconds", "steps"), ((line["library"], line["model"], f"{_seconds(line):.1f}", line["steps"]) for line in slow))


def _reason(line: Dict[str, Any]) -> str:
    text = line["error"].replace("site-packages/", "").replace("CaptureError: ", "").replace("|", "/").replace("<", "‹").replace(">", "›")
    return text if len(text) <= 170 else text[:169] + "…"


def _rows(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> List[str]:
    found = [f"| {' | '.join(map(str, row))} |" for row in rows]
    if not found:
        return ["None."]
    return [f"| {' | '.join(names)} |", f"| {' | '.join('---' for _ in names)} |", *found]


if __name__ == "__main__":
    main()
