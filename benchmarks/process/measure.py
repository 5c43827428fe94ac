"""Times the whole process: the median of several runs of the release binary.

    python3 benchmarks/process/measure.py [--program PATH] [--runs 31] [--limit 30] [--cpu] [--all]

Each run is a new process, whose output is discarded: reading the model, three training steps, the report. Prints the median and
the slowest of each. Exits with 1 if a median is over the limit, in milliseconds. `--cpu` counts CPU time of all threads instead of
wall time, for a busy machine. Every archive of validation/archives and every capture of validation/captures runs three times to
find the slowest of each; `--all` measures and prints all of them, slowest first. Needs a release build: cargo build --release -p
vramfit.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = ("bert-base", "llama-1b", "resnet50", "vit-b-16")


def milliseconds(program, model, counts_cpu=False):
    begun = time.perf_counter()
    child = subprocess.Popen([program, "estimate", model, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    taken = time.perf_counter() - begun
    # 1 is a verdict, 2 an error.
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"error: {program} estimate {model} failed")
    return (used.ru_utime + used.ru_stime if counts_cpu else taken) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "vramfit"))
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--limit", type=float, default=30)
    parser.add_argument("--cpu", action="store_true", help="count CPU time")
    parser.add_argument("--all", action="store_true", help="measure every archive and capture")
    arguments = parser.parse_args()
    validation = ROOT / "validation"
    archives = sorted((validation / "archives").glob("*.pt2"))
    captures = sorted((validation / "captures").glob("*.vramfit"))

    def least(path):
        return min(milliseconds(arguments.program, str(path), arguments.cpu) for _ in range(3))

    if arguments.all:
        models = [*BUILT_IN, *archives, *captures]
    else:
        models = [*BUILT_IN, validation / "archives" / "resnet50.pt2", max(archives, key=least), max(captures, key=least)]
    rows = []
    for model in map(str, models):
        times = [milliseconds(arguments.program, model, arguments.cpu) for _ in range(arguments.runs)]
        rows.append((statistics.median(times), min(times), max(times), model.removeprefix(str(ROOT) + "/")))
    if arguments.all:
        rows.sort(reverse=True)
    for median, fastest, slowest, model in rows:
        print(f"{model:40} median {median:6.1f} ms  fastest {fastest:6.1f}  slowest {slowest:6.1f}")
    if not arguments.all:
        print(f"{len(archives)} archives and {len(captures)} captures; the last rows are the slowest of each")
    sys.exit(1 if any(median > arguments.limit for median, *_ in rows) else 0)


if __name__ == "__main__":
    main()
