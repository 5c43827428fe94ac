"""Tests `vramfit plan` in a real terminal, through tmux: progress after one second, Ctrl-C, what stays on the screen.

    python3 tests/plan/terminal.py VRAMFIT
"""

import os
import pathlib
import re
import shlex
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "monitor"))

from tmux import Terminal, check  # noqa: E402

# A cuDNN of this machine would change how long a search takes.
os.environ["VRAMFIT_CUDNN"] = "off"

CAPTURES = pathlib.Path(__file__).resolve().parent.parent.parent / "validation" / "captures"
# A search of more than ten seconds on one core, to which it is kept: the test must not end before its Ctrl-C.
LONG = ("densenet121", "--batch 256 --vram 5GiB")
PROGRESS = r"\d+ candidates simulated, \d+ s; Ctrl-C stops with the best so far"


def command(vramfit, model, *flags):
    return " ".join(["taskset", "-c", "0", vramfit, "plan", shlex.quote(str(CAPTURES / f"{model}.vramfit")), *flags])


def stopped(vramfit, folder):
    """Ctrl-C gives what was found until then: the answer, its exit code, and a clean screen."""
    answer = folder / "answer.txt"
    with Terminal(os.environ) as terminal:
        terminal.run("clear; " + command(vramfit, *LONG) + f" > {answer}")
        terminal.until(PROGRESS)
        terminal.keys("C-c")
        terminal.until(r"(?m)^>\s*\Z")
        shown = terminal.screen()
        check("candidates" not in shown and "^C" not in shown, "the progress stays on the screen", terminal)
        status = terminal.status()
        text = answer.read_text()
        check("stopped early" in text, f"the answer does not say that it was stopped:\n{text}", terminal)
        has_plan = "Recommended:" in text
        check(status == (0 if has_plan else 1), f"exit code {status} with{'' if has_plan else 'out'} a plan", terminal)
        check("Nothing fits" not in text, "a search that was stopped says that nothing fits", terminal)


def narrow(vramfit):
    """On a narrow terminal the line is cut: one that wraps could not be written over."""
    with Terminal(os.environ, 40, 12) as terminal:
        terminal.run("clear; " + command(vramfit, *LONG) + " > /dev/null")
        terminal.until(r"\d+ candidates simulated, \d+ s")
        lines = [line for line in terminal.screen().splitlines() if "candidates" in line]
        check(len(lines) == 1, "progress on several lines", terminal)
        terminal.keys("C-c")
        terminal.until(r"(?m)^>\s*\Z")


def unsized(vramfit):
    """A terminal that reports no columns is taken for one of 80."""
    with Terminal(os.environ) as terminal:
        terminal.run("clear; stty cols 0; " + command(vramfit, *LONG) + " > /dev/null; stty cols 80")
        terminal.until(PROGRESS)
        terminal.keys("C-c")
        terminal.until(r"(?m)^>\s*\Z")


def plain(vramfit):
    """Text for people ends at 80 columns, and without a terminal there are neither colours nor progress."""
    with Terminal(os.environ) as terminal:
        terminal.run("clear; " + command(vramfit, "bert-small", "--batch 32 --seq 128 --vram 600MiB --no-color") + " | head -n 18")
        shown = terminal.until("largest batch")
        check(re.search(r"does not fit in 600 MiB; it would reserve \d+ MiB", shown), "no verdict", terminal)


def main():
    vramfit = shlex.quote(str(pathlib.Path(sys.argv[1]).resolve()))
    with tempfile.TemporaryDirectory() as folder:
        stopped(vramfit, pathlib.Path(folder))
    narrow(vramfit)
    unsized(vramfit)
    plain(vramfit)
    print(f"{Terminal.count} terminals: plan's progress, Ctrl-C, and what is left of them")


main()
