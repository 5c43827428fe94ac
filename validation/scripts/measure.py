"""Runs scripts of `table.toml` on a GPU and writes the allocator's own figures, one JSON line a script.

    python3 measure.py --checkouts DIR --out figures.jsonl [--trace DIR] [--jobs 6] [--only PART …]

Each script runs in a process of its own, in a copy of its folder. Nothing of it is changed: a folder on PYTHONPATH
replaces the data (`shim/`). Without a GPU this is a dry run: the figures are zero, the exit status is what counts.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import prepare
import table


def run(script, options, work):
    """One script; returns its row."""
    begun = time.monotonic()
    row = {"name": script.name, "arguments": script.arguments, "commit": script.commit}
    figures = pathlib.Path(work) / f"{script.name.replace('/', '+')}.figures.json"
    log = pathlib.Path(work) / f"{script.name.replace('/', '+')}.log"
    try:
        place, folder = prepare.prepare(script, options.checkouts, work)
    except FileNotFoundError as problem:
        return {**row, "status": 2, "error": str(problem)}
    environment = prepare.environment(script, place, dict(os.environ))
    environment["VRAMFIT_FIGURES"] = str(figures)
    if script.world:
        environment["MADE_UP_WORLD"] = str(script.world)
    if options.trace:
        environment["VRAMFIT_TRACE"] = str(options.trace / f"{script.name.replace('/', '+')}.pickle.xz")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, place.name, *script.arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )
        try:
            row["status"] = process.wait(options.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            row["status"] = "timeout"
    row["seconds"] = round(time.monotonic() - begun, 1)
    if figures.exists():
        row.update(json.loads(figures.read_text()))
    if row["status"] != 0:
        row["error"] = log.read_text(errors="replace")[-1500:]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkouts", type=pathlib.Path, required=True, help="the folder that checkout.py filled")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the file of JSON lines")
    parser.add_argument("--trace", type=pathlib.Path, help="a folder for the allocator's history of each script")
    parser.add_argument("--jobs", type=int, default=6, help="scripts at a time (6)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one script (60)")
    parser.add_argument("--deadline", type=float, default=230, help="seconds after which no script is started (230)")
    parser.add_argument("--only", nargs="*", default=(), help="parts of the names of the scripts to run")
    options = parser.parse_args()
    options.checkouts = options.checkouts.resolve()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.trace:
        options.trace = options.trace.resolve()
        options.trace.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    chosen = table.scripts(options.only)

    def start(script):
        if time.monotonic() - begun > options.deadline:
            return {"name": script.name, "status": "not started"}
        try:
            return run(script, options, work)
        except Exception as problem:  # One script's trouble is not another's.
            return {"name": script.name, "status": "not run", "error": repr(problem)}

    with tempfile.TemporaryDirectory() as work, open(options.out, "w") as out:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for row in pool.map(start, chosen):
                out.write(json.dumps(row) + "\n")
                out.flush()
                print(row["name"], row["status"], row.get("peak_allocated"), row.get("seconds"), flush=True)


if __name__ == "__main__":
    main()
