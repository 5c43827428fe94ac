"""Records everything in the plan: many processes at a time, one GPU.

    python validation/record/all.py --out folder

Writes folder/recordings.tar (snapshots and their statistics; split into recordings-2.tar, … at
14 MiB) and folder/results.json (the statistics of all runs). --device cpu runs every case with tiny
sizes instead and prints the list of runs: a check without a GPU.
"""

import argparse
import fnmatch
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from plan import LONG, MIB, Run, phases

HERE = Path(__file__).resolve().parent
TAR_LIMIT = 14 * MIB


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="folder for the single files (default: OUT/runs)")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one run")
    parser.add_argument("--deadline", type=int, default=420, help="seconds after which no run is started")
    parser.add_argument("--only", default="*", help="comma-separated patterns of run names, such as 'bert*,cnn.*'")
    parser.add_argument("--big", action="store_true", help="also record the run of 200,000 events, as big.pickle.gz")
    parser.add_argument("--huge", action="store_true", help="also record one four times as long, as huge.pickle.gz")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args()


class Farm:
    """Runs record.py for many runs in parallel and gathers their statistics."""

    def __init__(self, arguments, work):
        self.arguments = arguments
        self.work = work
        self.started = time.monotonic()
        self.results = {}
        self.problems = []
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}

    def elapsed(self):
        return time.monotonic() - self.started

    def command(self, run):
        command = [sys.executable, str(HERE / "record.py"), "--case", run.case, "--out", str(self.work)]
        command += ["--label", run.label, "--run", str(run.run), f"--alloc-conf={run.alloc_conf}"]
        command += ["--device", self.arguments.device]
        if run.cap_mib is not None:
            command += ["--cap-mib", str(run.cap_mib)]
        if not run.recorded:
            command.append("--peaks-only")
        return command

    def run_one(self, run):
        if self.elapsed() > self.arguments.deadline:
            return "not started: past the deadline"
        try:
            done = subprocess.run(
                self.command(run),
                env=self.environment,
                timeout=self.arguments.timeout,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except subprocess.TimeoutExpired:
            return f"killed after {self.arguments.timeout} s"
        if done.returncode != 0:
            return f"exit code {done.returncode}\n{done.stdout[-1500:]}"
        return None

    def run_all(self, title, runs):
        patterns = self.arguments.only.split(",")
        runs = [run for run in runs if any(fnmatch.fnmatch(run.name, pattern) for pattern in patterns)]
        print(f"== {title}: {len(runs)} runs, {self.elapsed():.0f} s since the start", flush=True)
        with ThreadPoolExecutor(self.arguments.jobs) as pool:
            pending = {pool.submit(self.run_one, run): run for run in runs}
            for number, future in enumerate(as_completed(pending), start=1):
                run, problem = pending[future], future.result()
                path = self.work / f"{run.name}.json"
                if problem is None and path.exists():
                    self.results[run.name] = json.loads(path.read_text())
                if problem is not None:
                    self.problems.append((run.name, problem))
                print(f"[{number:3}/{len(runs)} {self.elapsed():4.0f} s] {self.describe(run, problem)}", flush=True)

    def describe(self, run, problem):
        result = self.results.get(run.name)
        if problem is not None or result is None:
            return f"{run.name}: {problem or 'done'}"
        text = f"{run.name}: {result['peak_allocated'] / MIB:.0f} MiB allocated, "
        text += f"{result['peak_reserved'] / MIB:.0f} reserved, {result['seconds']:.0f} s"
        if run.recorded:
            text += f", {sum(result['events'])} events, {result['gzip_bytes'] // 1024} KiB"
        if result["oom"]:
            text += f", out of memory for {result['oom'].get('requested', 0) / MIB:.0f} MiB"
        elif result["stats"]["num_alloc_retries"]:
            text += f", {result['stats']['num_alloc_retries']} retries"
        return text


def write_results(results, path):
    """All runs, without the long texts; a recorded run's own file in the archive has those."""
    runs = [{key: value for key, value in results[name].items() if key != "summary"} for name in sorted(results)]
    path.write_text(json.dumps({"runs": runs}) + "\n")


def pack(names, work, out):
    """Plain tar files, each below the limit, with no trace of when and by whom they were made."""
    archives, archive, size = [], None, 0
    for name in names:
        files = [work / f"{name}.pickle.gz", work / f"{name}.json"]
        needed = sum(file.stat().st_size + 1024 for file in files)
        if archive is None or size + needed > TAR_LIMIT:
            if archive is not None:
                archive.close()
            number = f"-{len(archives) + 1}" if archives else ""
            archives.append(out / f"recordings{number}.tar")
            archive, size = tarfile.open(archives[-1], "w"), 0
        for file in files:
            entry = tarfile.TarInfo(file.name)
            entry.size = file.stat().st_size
            archive.addfile(entry, io.BytesIO(file.read_bytes()))
        size += needed
    if archive is not None:
        archive.close()
    return archives


def main():
    arguments = parse_arguments()
    out, work = arguments.out, arguments.work or arguments.out / "runs"
    out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    farm = Farm(arguments, work)
    long_runs = [Run(name) for name in LONG if getattr(arguments, name)]
    for number, (title, plan) in enumerate(phases()):
        runs = list(plan(farm.results))
        if arguments.device == "cpu" and number > 0:
            print(f"== {title}: {len(runs)} runs planned without peaks: " + " ".join(run.name for run in runs))
            continue
        if number == 1:
            runs = long_runs + runs
        farm.run_all(title, runs)

    if arguments.device == "cuda":
        write_results(farm.results, out / "results.json")
        recorded = [name for name in sorted(farm.results) if (work / f"{name}.pickle.gz").exists()]
        for archive in pack([name for name in recorded if name not in LONG], work, out):
            print(f"{archive.name}: {archive.stat().st_size / MIB:.1f} MiB")
        for name in LONG:
            if name in recorded:
                (out / f"{name}.pickle.gz").write_bytes((work / f"{name}.pickle.gz").read_bytes())
    print(f"{len(farm.results)} results, {len(farm.problems)} problems, {farm.elapsed():.0f} s")
    for name, problem in farm.problems:
        print(f"problem: {name}: {problem}")
    return 1 if farm.problems else 0


if __name__ == "__main__":
    sys.exit(main())
