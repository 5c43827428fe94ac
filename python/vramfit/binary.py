"""Finds the ``vramfit`` binary and runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from typing import Callable, Iterator, List, Optional, Sequence, Tuple

from .errors import BinaryNotFound, VramfitError

VARIABLE = "VRAMFIT_BINARY"
# A line of progress, which the binary writes where its errors go.
_SEARCHING = re.compile(r"(\d+ candidates simulated), \d+ s;")
_NAME = "vramfit.exe" if os.name == "nt" else "vramfit"


def find_binary() -> str:
    """The path of the binary: ``VRAMFIT_BINARY``, else the one installed with this package, else the one built in a checkout,
    else the one in ``PATH``."""
    named = os.environ.get(VARIABLE)
    if named:
        if _runs(named):
            return named
        raise BinaryNotFound(f"{VARIABLE}: found {named!r}, needed the path of a program", f"correct the variable {VARIABLE}, or unset it")
    looked: List[str] = []
    for path in _places():
        if _runs(path):
            return path
        looked.append(path)
    raise BinaryNotFound(
        f"the vramfit binary: found it in none of {', '.join(looked)}, and not in PATH",
        f"`pip install` vramfit, or build it with `cargo build --release`, or name it in the variable {VARIABLE}",
    )


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _places() -> Iterator[str]:
    for folder in _script_folders():
        yield os.path.join(folder, _NAME)
    checkout = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.isfile(os.path.join(checkout, "Cargo.toml")):
        target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(checkout, "target")
        for profile in ("release", "debug"):
            yield os.path.join(target, profile, _NAME)
    in_path = _in_path()
    if in_path is not None:
        yield in_path


def _script_folders() -> List[str]:
    """The folders where installers put scripts: of this environment, of the user, and of a ``--target`` or ``--prefix`` install."""
    package = os.path.dirname(os.path.abspath(__file__))
    folders = [sysconfig.get_path("scripts")]
    user = sysconfig.get_preferred_scheme("user") if sys.version_info >= (3, 10) else f"{os.name}_user"
    try:
        folders.append(sysconfig.get_path("scripts", scheme=user))
    except KeyError:
        pass
    # pip puts scripts of a --target install into `bin` on Windows too.
    for name in ("Scripts", "bin") if os.name == "nt" else ("bin",):
        folders.append(os.path.join(os.path.dirname(package), name))
    return list(dict.fromkeys(folder for folder in folders if folder))


def _in_path() -> Optional[str]:
    return shutil.which("vramfit")


def run(arguments: Sequence[str], progress: Callable[[str], None] = lambda _: None) -> Tuple[int, str]:
    """Runs the binary and returns its exit code (0 or 1) and output. Raises if the binary refuses its input.

    ``progress`` is called with what a search says of itself, such as ``395 candidates simulated``."""
    binary = find_binary()
    try:
        process = subprocess.Popen([binary, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as problem:
        raise VramfitError(f"{binary}: {problem}", f"name another binary in the variable {VARIABLE}") from problem
    said: List[str] = []

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            text = line.decode("utf-8", "replace")
            found = _SEARCHING.match(text)
            if found is None:
                said.append(text)
            else:
                progress(found.group(1))

    listener = threading.Thread(target=listen, name="vramfit-binary", daemon=True)
    with process:
        listener.start()
        try:
            assert process.stdout is not None
            output = process.stdout.read()
            code = process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            listener.join()
    if code not in (0, 1):
        raise _refusal(code, "".join(said))
    return code, output.decode("utf-8", "replace")


def _refusal(code: int, text: str) -> VramfitError:
    """The binary's error message as an exception."""
    text = text.replace("For more information, try '--help'.", "").strip()
    # 2 is bad usage or input; a panic is 101; a crash is a signal's number or a code of Windows.
    if code != 2 or not text:
        return VramfitError(f"the vramfit binary ended with code {code}: {text or 'it printed nothing'}", "please report this")
    message, _, hint = text.partition("\n\nhint: ")
    return VramfitError(message[len("error: "):] if message.startswith("error: ") else message, hint)
