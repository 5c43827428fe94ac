"""Runs a script as Python itself would, with a GPU that is not there, and records what it does."""

from __future__ import annotations

import os
import sys
import time
import traceback
from types import CodeType, ModuleType
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..errors import VramfitError
from ..patches import Patches
from ..session import Session
from . import cuda, distributed, libraries
from .function_mode import ScriptMode
from .recorder import ScriptRecorder
from .regions import ScriptModules, ScriptRegions
from .repetition import Repetition
from .stacks import Stacks

_PRE = torch._C.DispatchKey.PreDispatch
# Steps after which a script is stopped that does not repeat itself.
MOST_STEPS = 20


class ScriptError(VramfitError):
    """The script itself failed."""


class Stopped(BaseException):
    """Enough has been seen. Not an ``Exception``, so that a script does not handle it."""


class Limits:
    """When a script is stopped."""

    def __init__(self, steps: Optional[int], through_eval: bool) -> None:
        self.steps = steps
        self.through_eval = through_eval


class RecordedScript:
    """What a script did."""

    def __init__(self, recorder: ScriptRecorder, session: Session, modules: ScriptModules, steps: int, end: str) -> None:
        self.recorder = recorder
        self.session = session
        self.modules = modules
        self.steps = steps
        # Why it ended: `end`, `steps`, `repeated`, `interrupted`, `exit`.
        self.end = end


def execute(code: CodeType, names: Dict[str, Any]) -> None:
    """Runs the script. Marks the boundary between its frames and ours."""
    exec(code, names)  # noqa: S102 - running the user's script is what was asked for


def record(
    path: str, arguments: List[str], gpu: cuda.Gpu, limits: Limits, progress: Callable[[str], None] = lambda _: None,
    world: Optional[int] = None,
) -> RecordedScript:
    """Runs the script at ``path`` with these arguments, as the first of ``world`` ranks."""
    code = _compile(path)
    session = Session(execute.__code__)
    session.sources = Stacks(execute.__code__)
    recorder = ScriptRecorder(session)
    modules = ScriptModules()
    repetition = Repetition(recorder)
    begun = time.monotonic()

    def stepped(optimizer: Any) -> None:
        recorder.categorize(libraries.state_tensors(optimizer), "optimizer")
        recorder.pseudo("phase", {"what": {"string": "step"}})
        repetition.ended()
        progress(f"step {repetition.count}, {time.monotonic() - begun:.0f} s")
        if limits.steps is not None and repetition.count >= limits.steps:
            raise Stopped("steps")
        if limits.steps is None and not limits.through_eval and (repetition.count >= MOST_STEPS or repetition.repeats()):
            raise Stopped("repeated" if repetition.repeats() else "steps")

    patches = Patches()
    handles: List[Any] = []
    regions = ScriptRegions(modules, patches)
    try:
        regions.install()
        cuda.install(patches, gpu, recorder)
        patches.set(os, "_exit", _leaving(os.getpid(), os._exit))
        handles = libraries.install(patches, recorder, stepped, world)
        regions.recorder = recorder
        with distributed.Environment(world):
            end = _run(path, arguments, code, recorder)
        if world is not None and not recorder.has_process_group:
            session.note(f"{path} made no process group, so --world {world} changes nothing: this is one process on one GPU")
    finally:
        recorder.active = False
        for handle in handles:
            handle.remove()
        patches.undo()
    return RecordedScript(recorder, session, modules, repetition.count, end)


def _compile(path: str) -> CodeType:
    try:
        with open(path, "rb") as stream:
            text = stream.read()
    except OSError as problem:
        raise ScriptError(f"{path}: {problem.strerror or problem}", "give the path of a Python script") from problem
    try:
        return compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as problem:
        raise ScriptError("".join(traceback.format_exception_only(type(problem), problem)).rstrip()) from problem


def _run(path: str, arguments: List[str], code: CodeType, recorder: ScriptRecorder) -> str:
    include = torch._C._dispatch_tls_set_dispatch_key_included
    main = ModuleType("__main__")
    main.__dict__.update({"__file__": path, "__builtins__": __builtins__})
    before: Tuple[Any, Any, Any] = (sys.argv, sys.path[:], sys.modules["__main__"])
    sys.argv = [path, *arguments]
    sys.path[0:0] = [os.path.dirname(os.path.abspath(path))]
    sys.modules["__main__"] = main
    mode = ScriptMode(recorder)
    recorder.active = True
    include(_PRE, True)
    try:
        with torch._C._EnablePythonDispatcher(), mode:
            execute(code, main.__dict__)
        return "end"
    except Stopped as stopped:
        return str(stopped)
    except KeyboardInterrupt:
        return "interrupted"
    except SystemExit as left:
        if left.code not in (None, 0):
            raise ScriptError(f"{path}: the script ended itself with exit code {left.code}") from None
        return "exit"
    except VramfitError:
        raise
    except BaseException as problem:
        raise ScriptError(_own_traceback(problem), _hint(problem)) from None
    finally:
        recorder.active = False
        include(_PRE, False)
        sys.argv, sys.path[:], sys.modules["__main__"] = before


def _leaving(owner: int, leave: Callable[[int], Any]) -> Callable[[int], None]:
    """``os._exit`` for a script that still needs its answer. Processes that it has forked end at once."""

    def leave_at_once(status: int) -> None:
        if os.getpid() != owner:
            leave(status)
        raise SystemExit(status)

    return leave_at_once


def _hint(problem: BaseException) -> str:
    """What to do about an exception that the machine is the reason for, not the script."""
    if isinstance(problem, OSError) and "huggingface.co" in str(problem):
        return (
            "the script runs as it is, so it needs the files that it loads: run it once with a network, or `hf download NAME`. "
            "Without the weights, from_config(AutoConfig.for_model(...)) instead of from_pretrained needs the same memory"
        )
    if isinstance(problem, RuntimeError) and "Found no NVIDIA driver" in str(problem):
        return "a process that the script started used the GPU; only the script's own process is followed"
    return ""


def _own_traceback(problem: BaseException) -> str:
    """The script's own traceback: from its first line on, without our frames."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
    summary = traceback.TracebackException.from_exception(problem)
    frames = [frame for frame in summary.stack if not os.path.abspath(frame.filename).startswith(here)]
    while frames and frames[-1].filename.endswith("torch" + os.sep + "_ops.py"):
        frames.pop()
    lines = ["Traceback (most recent call last):\n", *traceback.StackSummary.from_list(frames).format(), *summary.format_exception_only()]
    return "the script raised an exception\n" + "".join(lines).rstrip()
