"""``python -m vramfit``: runs ``capture`` and ``run`` in Python and passes every other command to the binary."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import List

from .binary import find_binary
from .errors import VramfitError


def main(arguments: List[str]) -> int:
    """Returns the exit code."""
    try:
        if arguments[:1] == ["capture"]:
            from .command.capture import run

            return run(arguments[1:])
        if arguments[:1] == ["run"]:
            from .command.run import run as run_script

            return run_script(arguments[1:])
        binary = find_binary()
    except VramfitError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    if os.name == "posix":
        os.execv(binary, [binary, *arguments])
    # The binary gets Ctrl-C too and handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return subprocess.run([binary, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
