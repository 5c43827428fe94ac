"""How long the whole process takes: the median of a few runs of the release binary.

    python3 benchmarks/process/measure.py [--program PATH] [--runs 31] [--limit 30]

Each run is a new process with its output thrown away: reading the model, three training steps, the report. Prints the median and
the slowest of each; exits with 1 where a median is over the limit, in milliseconds. Every archive of validation/archives is
run once more than needed to find the slowest of them. Needs a release build: cargo build --release -p vramfit-cli.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT_IN = ("bert-base", "llama-1b", "resnet50", "vit-b-16")


def milliseconds(program, model):
    begun = time.perf_counter()
    # 1 is a verdict, 2 an error.
    code = subprocess.run([program, "estimate", model, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    if code == 2:
        raise SystemExit(f"error: {program} estimate {model} failed")
    return (time.perf_counter() - begun) * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "vramfit"))
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--limit", type=float, default=30)
    arguments = parser.parse_args()
    archives = sorted((ROOT / "validation" / "archives").glob("*.pt2"))
    slowest = max(archives, key=lambda path: min(milliseconds(arguments.program, str(path)) for _ in range(3)))
    is_slow = False
    for model in (*BUILT_IN, str(ROOT / "validation" / "archives" / "resnet50.pt2"), str(slowest)):
        times = [milliseconds(arguments.program, model) for _ in range(arguments.runs)]
        median = statistics.median(times)
        is_slow |= median > arguments.limit
        print(f"{model.removeprefix(str(ROOT) + '/'):40} median {median:6.1f} ms  fastest {min(times):6.1f}  slowest {max(times):6.1f}")
    print(f"{len(archives)} archives; the last row is the slowest of them")
    sys.exit(1 if is_slow else 0)


if __name__ == "__main__":
    main()
