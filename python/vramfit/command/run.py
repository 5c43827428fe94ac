"""The ``run`` command."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence

from .. import binary
from ..asking.cudnn import own_library
from ..errors import VramfitError
from ..progress import Progress

_EXAMPLES = """examples:
  python -m vramfit run train.py --epochs 3
  python -m vramfit run --gpu "RTX 3060" --steps 5 train.py
  python -m vramfit run --out train.vramfit train.py && vramfit run --recording train.vramfit --gpu T4
"""
_DEFAULT_GPU = "H200"
_ENDS = {
    "steps": "stopped after {steps} optimizer steps", "repeated": "stopped after {steps} optimizer steps: memory repeats",
    "interrupted": "interrupted after {steps} optimizer steps", "end": "ran to its end, {steps} optimizer steps",
    "exit": "ended itself, {steps} optimizer steps",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vramfit run", description="Dry-run a training script without a GPU, and predict its GPU memory.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )
    parser.add_argument("--gpu", metavar="NAME", help="the GPU, such as \"RTX 3060\"; by default, an H200 whose memory is no limit")
    parser.add_argument("--vram", metavar="SIZE", help="limit on what PyTorch may reserve, such as 11GiB")
    parser.add_argument("--alloc-conf", metavar="STR", help="allocator settings; by default, those of PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument("--cudnn", metavar="PATH|off", help="the cuDNN to ask for workspaces of convolutions, or off")
    parser.add_argument("--steps", type=_count, metavar="N", help="stop after N optimizer steps; by default when memory has repeated, at most 20")
    parser.add_argument("--through-eval", action="store_true", help="go on until the script ends, so that an evaluation is seen too")
    parser.add_argument("--world", type=_count, metavar="N", help="run the first of N ranks of a script for several GPUs (DistributedDataParallel)")
    parser.add_argument("--verbose", "-v", action="store_true", help="show phases, holders of the peak and all notes too")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--html", metavar="FILE", help="write a self-contained HTML page")
    parser.add_argument("--snapshot", metavar="FILE", help="write the simulated run as a snapshot, as torch.cuda.memory._dump_snapshot does")
    parser.add_argument("--out", metavar="FILE", help="write the recording, for `vramfit run --recording`")
    parser.add_argument("--recording", metavar="FILE", help="answer from a recording instead of running a script")
    parser.add_argument("--color", metavar="WHEN", help=argparse.SUPPRESS)
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="the Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the script's own arguments")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, needed a number of at least 1")
    return int(text)


def run(arguments: List[str]) -> int:
    """Runs the script and returns the exit code."""
    given = _parser().parse_args(arguments)
    if given.recording is not None:
        return _answer(given.recording, given)
    if given.script is None:
        raise VramfitError("run: found no script, needed one", "python -m vramfit run train.py")
    if not os.path.isfile(given.script):
        raise VramfitError(f"{given.script}: there is no such script", "give the path of a Python script; options of vramfit come before it")
    if given.script.endswith(".ipynb"):
        raise VramfitError(f"{given.script}: found a notebook, needed a Python script", f"jupyter nbconvert --to script {given.script}")
    for file in (given.out, given.html, given.snapshot):
        _check_file(file)
    gpu, folder = _gpu(given.gpu or _DEFAULT_GPU), os.getcwd()
    with Progress() as progress:
        progress.at("importing torch")
        try:
            import torch  # noqa: F401
        except ImportError:
            raise VramfitError("run: found no torch in this Python, needed it to run the script", "use the Python in which the script runs") from None
        from ..running.cuda import Gpu
        from ..running.script import Limits, ScriptError, record

        progress.at(f"running {given.script}")
        known = Gpu(gpu["name"], _capability(gpu), int(gpu["memory"] or 0), int(gpu["multiprocessors"] or 0), int(gpu.get("cache") or 0))
        # What the script prints must not get between the lines of JSON.
        with contextlib.redirect_stdout(sys.stderr if given.json else sys.stdout):
            try:
                recorded = record(given.script, given.arguments, known, Limits(given.steps, given.through_eval), progress.at, given.world)
            except ScriptError as problem:
                raise ScriptError(problem.message, problem.hint or _misplaced(given)) from None
        # The script may have left its folder.
        os.chdir(folder)
    for note in recorded.session.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{given.script}: {_ENDS[recorded.end].format(steps=recorded.steps)}", file=sys.stderr)
    if not recorded.recorder.has_reached_gpu():
        raise VramfitError(
            f"{given.script}: never put a tensor on the GPU, so there is nothing to predict",
            _misplaced(given) or "check that the script moves its model to \"cuda\" where torch.cuda.is_available() is true",
        )
    return _written_and_answered(recorded, given)


def _misplaced(given: argparse.Namespace) -> str:
    """What to do where the script was given a flag of this command. A script may have one of the same name, so nothing is said unless it fails."""
    for flag in ("--gpu", "--vram"):
        if any(word.partition("=")[0] == flag for word in given.arguments):
            return f"{flag} was given to the script; options of vramfit come before it: vramfit run {flag} … {given.script}"
    return ""


def _check_file(path: Optional[str]) -> None:
    """Refuses a file that cannot be written before the script has run for long."""
    if path is None:
        return
    if os.path.isdir(path):
        raise VramfitError(f"{path}: found a folder, needed a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise VramfitError(f"{path}: there is no folder {folder}", "make it first")


def _written_and_answered(recorded: Any, given: argparse.Namespace) -> int:
    from ..file_format import write
    from ..running.writing import contents

    name = os.path.basename(given.script)
    if given.out is not None:
        try:
            write(given.out, contents(recorded, name))
        except OSError as problem:
            raise VramfitError(f"{given.out}: {problem.strerror or problem}") from problem
        return _answer(given.out, given)
    with tempfile.TemporaryDirectory(prefix="vramfit-") as folder:
        path = os.path.join(folder, name + ".vramfit")
        write(path, contents(recorded, name))
        return _answer(path, given, ["--temporary", *(f"--recorded-with={word}" for word in _recorded_with(given))])


def _recorded_with(given: argparse.Namespace) -> List[str]:
    """The words after ``run`` that record the same again."""
    flags = ["--steps", str(given.steps)] * (given.steps is not None) + ["--through-eval"] * given.through_eval
    return [*flags, *(["--world", str(given.world)] * (given.world is not None)), given.script, *given.arguments]


def _answer(path: str, given: argparse.Namespace, more: Sequence[str] = ()) -> int:
    command = [binary.find_binary(), "run", "--recording", path, *more]
    conf = given.alloc_conf if given.alloc_conf is not None else os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF")
    for flag, value in (("--gpu", given.gpu), ("--vram", given.vram), ("--alloc-conf", conf), ("--cudnn", given.cudnn or own_library()), ("--html", given.html), ("--snapshot", given.snapshot), ("--color", given.color)):
        if value is not None:
            command += [flag, value]
    command += ["--json"] * given.json + ["--verbose"] * given.verbose
    sys.stdout.flush()
    return subprocess.run(command, check=False).returncode


def _gpu(name: str) -> Dict[str, Any]:
    """What a script may ask about the GPU."""
    _, text = binary.run(["run", "--describe-gpu", "--gpu", name])
    found: Dict[str, Any] = json.loads(text)
    return found


def _capability(gpu: Dict[str, Any]) -> Any:
    major, _, minor = str(gpu["compute_capability"]).partition(".")
    return int(major), int(minor or 0)


