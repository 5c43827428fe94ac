"""Predicts the memory of the scripts of `table.toml` without a GPU and holds it against what `measure.py` measured.

    python3 compare.py --checkouts DIR --binary vramfit --predict          # writes answers.jsonl; no GPU, minutes
    python3 compare.py --predict --recordings DIR --reuse …                # answers again from recordings, seconds
    python3 compare.py --table ../../docs/run-accuracy.md                  # from measured.jsonl and answers.jsonl

`--predict` starts `python -m vramfit run --json --through-eval` on each script, in a copy of its folder, with the same made-up
data as on the GPU. `--check` fails when the table in `docs/` is not the one that the two files give.
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

import accuracy
import table

PYTHON = table.HERE.parent.parent / "python"


def predict(script, options, work):
    """The answer for one script, or why there is none."""
    import prepare  # Needs NumPy, which the page does not.

    row = {"name": script.name}
    recording = options.recordings / f"{script.name.replace('/', '+')}.vramfit" if options.recordings else None
    if options.reuse and recording and recording.is_file():
        environment = {**os.environ, "PYTHONPATH": str(options.python), "VRAMFIT_BINARY": str(options.binary)}
        command = [sys.executable, "-m", "vramfit", "run", "--recording", recording, "--gpu", "H200", "--json"]
        return answered(row, subprocess.run(command, env=environment, capture_output=True, timeout=options.timeout))
    try:
        place, folder = prepare.prepare(script, options.checkouts, work)
    except FileNotFoundError as problem:
        return {**row, "error": str(problem)}
    environment = prepare.environment(script, place, {**os.environ, "PYTHONPATH": str(options.python)})
    environment["VRAMFIT_BINARY"] = str(options.binary)
    command = [sys.executable, "-m", "vramfit", "run", "--json", "--through-eval", "--gpu", "H200", place.name, *script.arguments]
    if script.world:
        command[5:5] = ["--world", str(script.world)]
    if recording:
        command[5:5] = ["--out", str(recording)]
    begun = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {**row, "error": f"more than {options.timeout:.0f} s"}
    return answered({**row, "seconds": round(time.monotonic() - begun, 1)}, done)


def answered(row, done):
    """The row with the peaks of the answer that a process printed, after what the script itself printed."""
    text = done.stdout.decode(errors="replace")
    start = text.rfind("\n{\n")
    answer = text[start:] if start >= 0 else text
    try:
        found = json.loads(answer)
    except ValueError:
        return {**row, "error": " ".join(done.stderr.decode(errors="replace").split())[-400:]}
    for key in ("peak_allocated", "peak_reserved", "exact", "range", "reserved_range"):
        row[key] = found.get(key)
    return row


def predict_all(options):
    """Writes the answers of the chosen scripts; those of others stay."""
    known = accuracy.rows(options.answers) if options.answers.exists() else {}
    chosen = table.scripts(options.only)
    with tempfile.TemporaryDirectory() as work, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda script: predict(script, options, work), chosen):
            # How long the script took under vramfit stays where only its recording was answered again.
            taken = {"seconds": known[row["name"]]["seconds"]} if "seconds" in known.get(row["name"], {}) else {}
            known[row["name"]] = {**taken, **row}
            print(row["name"], row.get("peak_allocated"), row.get("error", ""), flush=True)
    with open(options.answers, "w") as out:
        for script in table.scripts():
            if script.name in known:
                out.write(json.dumps(known[script.name]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--predict", action="store_true", help="run vramfit on the scripts")
    parser.add_argument("--checkouts", type=pathlib.Path, help="the folder that checkout.py filled")
    parser.add_argument("--binary", type=pathlib.Path, help="the vramfit program")
    parser.add_argument("--python", type=pathlib.Path, default=PYTHON, help="the folder of the Python package (this repository's)")
    parser.add_argument("--recordings", type=pathlib.Path, help="a folder that keeps the recordings")
    parser.add_argument("--reuse", action="store_true", help="answer from the recordings that are there instead of running scripts again")
    parser.add_argument("--measured", type=pathlib.Path, default=table.HERE / "measured.jsonl", help="what measure.py wrote")
    parser.add_argument("--answers", type=pathlib.Path, default=table.HERE / "answers.jsonl", help="the answers")
    parser.add_argument("--first", type=pathlib.Path, default=table.HERE / "blind-answers.jsonl", help="the blind scripts' answers before they were measured")
    parser.add_argument("--table", type=pathlib.Path, help="the page to write")
    parser.add_argument("--check", action="store_true", help="fail if the page differs instead of writing it")
    parser.add_argument("--jobs", type=int, default=2, help="scripts at a time (2)")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one script (200)")
    parser.add_argument("--only", nargs="*", default=(), help="parts of the names of the scripts to run")
    options = parser.parse_args()
    if options.predict:
        if not options.checkouts or not options.binary:
            parser.error("--predict needs --checkouts and --binary")
        options.checkouts, options.binary = options.checkouts.resolve(), options.binary.resolve()
        options.python = options.python.resolve()
        if options.recordings:
            options.recordings = options.recordings.resolve()
            options.recordings.mkdir(parents=True, exist_ok=True)
        predict_all(options)
    page = accuracy.page(accuracy.rows(options.measured), accuracy.rows(options.answers), accuracy.rows(options.first))
    if options.table and options.check:
        if options.table.read_text() != page:
            sys.exit(f"{options.table}: differs from measured.jsonl and answers.jsonl; run compare.py --table {options.table}")
    elif options.table:
        options.table.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
