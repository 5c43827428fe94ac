"""Times the snapshot reader against CPython's pickle.load on the same file, in one run.

    python3 benchmarks/reader/compare.py [FILE] [--repetitions N] [--events N] [--depth N]

Without FILE a synthetic snapshot of more than 50 MB is written to a temporary folder. Both sides read the file once to warm the
page cache and then take turns, each in its own process. The time is for reading only; the memory is the process's peak resident
size. On a busy machine look at the CPU time, which is for the whole process. Exits with 1 if the reader is less than five times
as fast or takes more memory.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

LOAD = """
import {gc}pickle, sys, time
start = time.perf_counter()
with open(sys.argv[1], "rb") as file:
    snapshot = pickle.load(file)
print("seconds", time.perf_counter() - start, flush=True)
import os; os._exit(0)
"""
CPYTHON = LOAD.format(gc="")
CPYTHON_WITHOUT_GC = LOAD.format(gc="gc; gc.disable(); import ")


def measure(command):
    """The seconds that the command reports, the CPU seconds of its process, and its peak resident size in MiB."""
    reading, writing = os.pipe()
    process = os.posix_spawnp(
        command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)]
    )
    os.close(writing)
    with os.fdopen(reading) as stream:
        words = stream.read().split()
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit(f"{command[0]} failed")
    seconds = float(words[words.index("seconds") + 1])
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--events", type=int, default=220_000)
    parser.add_argument("--depth", type=int, default=60)
    options = parser.parse_args()

    build = ["cargo", "build", "--release", "--quiet", "--package", "vramfit-trace", "--example", "read_snapshot"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    reader = str(target / "release" / "examples" / "read_snapshot")

    with tempfile.TemporaryDirectory() as folder:
        path = options.file
        if path is None:
            path = os.path.join(folder, "snapshot.pickle")
            generate = [sys.executable, str(HERE / "generate.py"), path]
            generate += ["--events", str(options.events), "--depth", str(options.depth)]
            subprocess.run(generate, check=True)
        sides = {
            "pickle.load": [sys.executable, "-c", CPYTHON, path],
            "pickle.load, gc off": [sys.executable, "-c", CPYTHON_WITHOUT_GC, path],
            "vramfit": [reader, path],
        }
        results = {side: [] for side in sides}
        for command in sides.values():
            measure(command)
        for _ in range(options.repetitions):
            for side, command in sides.items():
                results[side].append(measure(command))
        size = os.path.getsize(path)

    version = ".".join(map(str, sys.version_info[:3]))
    print(f"file {size / 1e6:.1f} MB, {options.repetitions} repetitions in turns, CPython {version}")
    print(f"{'':22}{'median s':>10}{'min s':>10}{'max s':>10}{'CPU s':>8}{'MB/s':>8}{'peak MiB':>10}")
    for side, runs in results.items():
        seconds = [run[0] for run in runs]
        median = statistics.median(seconds)
        processor = statistics.median(run[1] for run in runs)
        peak = max(run[2] for run in runs)
        print(
            f"{side:22}{median:10.3f}{min(seconds):10.3f}{max(seconds):10.3f}{processor:8.3f}"
            f"{size / 1e6 / median:8.0f}{peak:10.0f}"
        )
    median = {side: statistics.median(run[0] for run in runs) for side, runs in results.items()}
    peak = {side: max(run[2] for run in runs) for side, runs in results.items()}
    ratio = median["pickle.load"] / median["vramfit"]
    ratio_without_gc = median["pickle.load, gc off"] / median["vramfit"]
    memory = peak["vramfit"] / peak["pickle.load"]
    print(f"vramfit is {ratio:.1f} times as fast as pickle.load ({ratio_without_gc:.1f} with its gc off)")
    print(f"and takes {memory:.0%} of its peak memory")
    sys.exit(0 if ratio >= 5 and memory < 1 else 1)


if __name__ == "__main__":
    main()
