"""Builds every model of several libraries without weights, captures it and estimates its training. One line of JSON per model.

    python validation/sweep/sweep.py --out lines.jsonl

Each model has a process and a time limit of its own. Models that have a line already are skipped, so an interrupted sweep goes on
where it ended. ``table.py`` makes docs/coverage.md from the lines.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, Dict

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parents[1] / "python")]
LIBRARIES = ("torchvision", "timm", "torchaudio", "diffusers", "transformers")


def main() -> None:
    """Reads the arguments and sweeps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="file of lines; those it has already are not made again")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this library; may be repeated")
    parser.add_argument("--only", default="*", help="only names that match this pattern; several separated by commas")
    parser.add_argument("--sample", type=int, help="only so many of each library, drawn at random")
    parser.add_argument("--part", default="0/1", help="every N-th model from the I-th on, for several processes: I/N")
    parser.add_argument("--seed", type=int, default=0, help="seed of --sample and of the order")
    parser.add_argument("--again", choices=("failed", "all"), help="make these lines again")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each model")
    parser.add_argument("--attempts", type=int, default=10, help="examples to try for each model")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    arguments = parser.parse_args()
    for library in arguments.library or LIBRARIES:
        sweep(library, arguments)


def sweep(library: str, arguments: Any) -> None:
    """All models of one library."""
    import vramfit  # noqa: F401 - imported before the children are forked

    models = importlib.import_module(f"libraries.{library}_models")
    patterns = arguments.only.split(",")
    every = models.names()
    names = [name for name in every if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if arguments.sample is not None and arguments.sample < len(names):
        names = random.Random(arguments.seed).sample(names, arguments.sample)
    random.Random(arguments.seed).shuffle(names)  # so that an interrupted sweep is a sample
    first, step = map(int, arguments.part.split("/"))
    names = names[first::step]
    lines = read_lines(arguments.out)
    todo = []
    for name in names:
        line = lines.get((library, name))
        if line is None or arguments.again == "all" or (arguments.again == "failed" and not line["answered"]):
            todo.append(name)
    if arguments.list:
        print("\n".join(f"{library} {name}" for name in names))
        return
    for at, name in enumerate(todo):
        line = dict(in_a_process(library, name, arguments.timeout, arguments.attempts), of=len(every))
        with arguments.out.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        said = f"{line['capture_s']:.1f} s" if line["answered"] else line["error"]
        print(f"{library} {at + 1}/{len(todo)} {name}: {said[:150]}", file=sys.stderr, flush=True)


def read_lines(path: Path) -> Dict[Any, Dict[str, Any]]:
    """The last line of each model."""
    found: Dict[Any, Dict[str, Any]] = {}
    if path.exists():
        for text in path.read_text().splitlines():
            line = json.loads(text)
            found[line["library"], line["model"]] = line
    return found


def in_a_process(library: str, name: str, timeout: float, attempts: int) -> Dict[str, Any]:
    """The line of one model, made in a child process that is stopped after ``timeout`` seconds."""
    started = time.monotonic()
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
        path = Path(folder) / "line.json"
        child = context.Process(target=_child, args=(library, name, folder, path, started + timeout, attempts))
        child.start()
        child.join(timeout)
        if child.is_alive():
            child.kill()
            child.join()
        line: Dict[str, Any] = {"library": library, "model": name, "answered": False}
        if path.exists():
            line.update(json.loads(path.read_text()))
        if not line["answered"]:
            over = time.monotonic() - started >= timeout
            line["error"] = f"no answer after {timeout:.0f} s" if over else line.get("error", f"the process ended with {child.exitcode}")
        line["total_s"] = round(time.monotonic() - started, 1)
    return line


def _child(library: str, name: str, folder: str, path: Path, deadline: float, attempts: int) -> None:
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    os.environ["VRAMFIT_CUDNN"] = "off"
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    best: Dict[str, Any] = {"error": "no example"}

    def write(line: Dict[str, Any]) -> None:
        path.with_suffix(".new").write_text(json.dumps(line))
        path.with_suffix(".new").replace(path)

    models = importlib.import_module(f"libraries.{library}_models")
    try:
        for attempt, example in enumerate(models.examples(name)):
            line = answer(example, folder)
            if _rank(line) > _rank(best):
                best = line
                write(best)
            if line["answered"] or time.monotonic() > deadline - 2:
                break
            if attempt + 1 >= attempts:
                break
    except BaseException as problem:  # noqa: BLE001 - the line says what it was
        if best["error"] == "no example":
            best = {"error": first_line(problem), "stage": "build"}
    write(best)


def _rank(line: Dict[str, Any]) -> int:
    """Which of several attempts says most about the capture: one that got further."""
    return 3 if line.get("answered") else {"estimate": 2, "capture": 1}.get(line.get("stage", ""), 0) if "stage" in line else -1


def first_line(problem: BaseException) -> str:
    """The first line of an error, without memory addresses."""
    text = (str(problem).strip().splitlines() or [""])[0]
    return re.sub(r"0x[0-9a-f]+", "0x…", f"{type(problem).__name__}: {text}")[:400]


def answer(example: Any, folder: str) -> Dict[str, Any]:
    """Captures and estimates one example."""
    import vramfit
    from examples import built
    from vramfit.errors import VramfitError

    line: Dict[str, Any] = {"answered": False, "note": example.note, "stage": "build"}
    try:
        model, line["built_on"] = built(example.build)
        inputs = example.inputs(model)
    except Exception as problem:  # noqa: BLE001
        return dict(line, error=first_line(problem), refused=True, trace=_where(problem))
    path = os.path.join(folder, "model.vramfit")
    line["stage"] = "capture"
    started, cpu = time.perf_counter(), time.process_time()
    try:
        capture = vramfit.capture(model, inputs, path, loss=example.loss, only={("as-built", "train")})
    except Exception as problem:  # noqa: BLE001
        cause = problem.__cause__ if isinstance(problem, VramfitError) else problem
        refused = cause is not None and refuses(model, inputs, example.loss, cause)
        return dict(line, error=first_line(problem), refused=refused, capture_s=round(time.perf_counter() - started, 2))
    line["capture_s"] = round(time.perf_counter() - started, 2)
    line["cpu_s"] = round(time.process_time() - cpu, 2)
    line["symbols"] = capture.symbols
    line["causes"] = [cause for variant in capture.contents["variants"] for cause in variant.get("causes", ())][:20]
    line["functions"] = sorted({step[1] for steps in capture.contents["steps"] for step in steps if step[0] == "function"})
    line["steps"] = max(len(steps) for steps in capture.contents["steps"])
    line["stage"] = "estimate"
    binary = os.environ.get("VRAMFIT") or str(FOLDER.parents[1] / "target" / "release" / "vramfit")
    started = time.perf_counter()
    done = subprocess.run([binary, "estimate", path, "--gpu", "H200", "--json"], capture_output=True, text=True, check=False)
    line["estimate_s"] = round(time.perf_counter() - started, 2)
    if done.returncode not in (0, 1):
        return dict(line, error=(done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0][:400])
    found = json.loads(done.stdout)
    return dict(
        line, answered=True, peak=found["peak_allocated"], reserved=found["peak_reserved"], exact=found["exact"],
        unmodelled=sorted({entry if isinstance(entry, str) else entry.get("op", str(entry)) for entry in found["unmodelled"]}),
        low=found["range"]["low"], high=found["range"]["high"], parameters=found["parameters"],
    )


def refuses(model: Any, inputs: Any, loss: Any, problem: BaseException) -> bool:
    """Whether the model fails with the same error when it runs without being captured."""
    import torch

    def on_meta(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to("meta")
        if isinstance(value, dict):
            return {name: on_meta(item) for name, item in value.items()}
        return type(value)(on_meta(item) for item in value) if isinstance(value, (list, tuple)) else value

    try:
        model = model.to("meta")
        given = on_meta(inputs)
        loss(model(**given) if isinstance(given, dict) else model(*given), None)
    except Exception as other:  # noqa: BLE001
        return type(other) is type(problem) and first_line(other)[:60] == first_line(problem)[:60]
    return False


def _where(problem: BaseException) -> str:
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"


if __name__ == "__main__":
    main()
