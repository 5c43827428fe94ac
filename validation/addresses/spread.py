"""Measures how much the peak reserved varies between processes that do the same.

    python3 validation/addresses/spread.py --out validation/addresses/spread.json

Each case runs in separate processes that import only what it needs, with several numbers of CPU threads, twice each; and in
forks of a process that has imported everything, as in `validation/measure/all.py`. Threads and imports leave different gaps in
the address space, and addresses break ties between free blocks.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MEASURE = Path(__file__).resolve().parents[1] / "measure" / "measure.py"
# The transformers whose peak reserved is predicted otherwise than the forks have measured it.
CASES = [
    "bert-eager",
    "bert-small-accumulate-amp",
    "encoder-post-accumulate-fp16",
    "encoder-post-amp-bf16",
    "gemma-bf16",
    "t5-checkpoint",
]
THREADS = [1, 2, 4, 8, 16]
PROCESSES = [("here", threads) for threads in THREADS for _ in range(2)] + [("fork", 2), ("fork", 16)]


def measured(case, process, threads, folder, number):
    out = Path(folder) / f"{number}.json"
    command = [sys.executable, MEASURE, "--case", case, "--threads", str(threads), "--out", out]
    subprocess.run(command + (["--here"] if process == "here" else []), stdout=subprocess.DEVNULL, check=False)
    result = json.loads(out.read_text())
    peaks = {key: result.get(key) for key in ("peak_allocated", "peak_reserved")}
    return {"case": case, "process": process, "threads": threads, **peaks}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=12)
    given = parser.parse_args()
    runs = [(case, *process) for case in CASES for process in PROCESSES]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda job: measured(*job[1], folder, job[0]), enumerate(runs)))
    given.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
