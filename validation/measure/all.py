"""Measures every case on this machine's GPU: peaks in three runs, a trace, trials under caps.

    python3 validation/measure/all.py --out "$OUT" --jobs 12

Writes measured.json and traces.tar into the folder. Four pools of processes run in parallel, one per
repetition and one for the traces. Each is started separately, so that addresses differ between repetitions.
"""

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import fork_pool

fork_pool.prepare_environment()

from cases import ALONE, CAPPED, CASES, MODELS  # noqa: E402
from measure import imports, write_json  # noqa: E402

CAP_PERCENT = (80, 84, 88, 92, 95, 98, 100, 102, 105, 110, 120)
TRACED_PERCENT = (84, 92, 98)
SLOW = ("llama-1b", "gpt2", "bert-base", "vit-b-16", "vgg11", "resnet50", "qwen2", "phi")
SEGMENT = 2 * 1024 * 1024
TRACES_LIMIT = 15 * 1024 * 1024


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="case names with commas between, or parts of names with a * after")
    parser.add_argument("--part", type=int, choices=[1, 2, 3, 4], help="only the cases of this part")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-trace", action="store_true")
    parser.add_argument("--no-caps", action="store_true")
    parser.add_argument("--no-alone", action="store_true")
    parser.add_argument("--change", action="append", default=[], help="SETTING=TEXT: every case with another setting")
    parser.add_argument("--annotate", action="store_true", help="traces with names of modules and autograd nodes")
    parser.add_argument("--timeout", type=int, default=110, help="seconds for one run")
    parser.add_argument("--deadline", type=int, default=440, help="seconds after which no run is started")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    parser.add_argument("--pool", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def chosen_cases(given):
    wanted = [name for name in given.only.split(",") if name]
    cases = [case for case in CASES.values() if given.part in (None, MODELS[case.model].part)]
    if wanted:
        cases = [
            case
            for case in cases
            if any(case.name.startswith(name[:-1]) if name.endswith("*") else case.name == name for name in wanted)
        ]
    return sorted(cases, key=lambda case: case.model not in SLOW)


def job(name, given, **arguments):
    changes = dict(change.split("=", 1) for change in given.change)
    return {
        "name": name,
        "call": "measure:measure",
        "arguments": {"device": given.device, "tiny": given.tiny, "changes": changes, **arguments},
    }


class Pool:
    """A new process that imports once and forks for each job; batches of jobs one after another."""

    def __init__(self, name, batches, given, folder, deadline):
        self.result = folder / f"{name}.result"
        self.jobs = [job for batch in batches for job in batch["jobs"]]
        plan = {
            "name": name,
            "batches": batches,
            "device": given.device,
            "timeout": given.timeout,
            "deadline": deadline,
            "result": str(self.result),
        }
        plan_file = folder / f"{name}.plan"
        plan_file.write_text(json.dumps(plan))
        command = [sys.executable, __file__, "--out", str(given.out), "--pool", str(plan_file)]
        self.process = subprocess.Popen(command)

    def results(self):
        self.process.wait()
        if self.result.exists():
            return json.loads(self.result.read_text())
        return {job["name"]: {"error": "its pool ended early"} for job in self.jobs}


def run_pool(plan_file):
    plan = json.loads(plan_file.read_text())
    imports()
    began = time.time()

    def report(name, result, done, total):
        if "error" in result or done % 10 == 0 or done == total:
            state = result.get("error", "ok").splitlines()[0]
            print(f"{plan['name']} {done}/{total} {time.time() - began:.0f} s {name}: {state}", flush=True)

    results = {}
    for batch in plan["batches"]:
        results.update(
            fork_pool.run(batch["jobs"], batch["limit"], plan["timeout"], plan["device"], report, plan["deadline"])
        )
    Path(plan["result"]).write_text(json.dumps(results, separators=(",", ":")))


def cap_jobs(cases, given):
    """Caps in whole segments of 2 MiB around the measured peak."""
    jobs = []
    for name in CAPPED:
        peak = cases.get(name, {}).get("peak_reserved")
        if peak and not given.no_caps:
            for percent in CAP_PERCENT:
                cap = peak * percent // 100 // SEGMENT * SEGMENT
                jobs.append(job(f"{name} {percent}", given, case_name=name, cap=cap))
                if percent in TRACED_PERCENT and not given.no_trace:
                    jobs.append(job(f"{name} cap{percent}", given, case_name=name, cap=cap, kind="trace"))
    return jobs


def merge_runs(runs):
    """The first run whole, of the others what may differ."""
    good = [run for run in runs if "error" not in run and run.get("phases")]
    if not good:
        return {"errors": [run.get("error", "") + "\n" + run.get("traceback", run.get("log", "")) for run in runs]}
    merged = {key: value for key, value in good[0].items() if key not in ("seconds", "device_used")}
    merged["runs"] = [
        {
            "peak_allocated": run["peak_allocated"],
            "peak_reserved": run["peak_reserved"],
            "device_used": run.get("device_used"),
            "reserved": [phase.get("reserved") for phase in run["phases"]],
            "same_allocated": all(
                (one.get("allocated"), one.get("peak")) == (other.get("allocated"), other.get("peak"))
                for one, other in zip(run["phases"], good[0]["phases"])
            ),
            "seconds": run["seconds"],
        }
        for run in good
    ]
    errors = [run["error"] for run in runs if "error" in run]
    return {**merged, "errors": errors} if errors else merged


def write_traces(traces, path):
    """Returns what stands in the archive and why the rest does not."""
    state, used = {}, 0
    with tarfile.open(path, "w") as archive:
        for name, result in traces.items():
            packed = result.get("trace")
            if packed is None:
                state[name] = result.get("error", "no trace")
                continue
            facts = {key: result[key] for key in ("case", "settings", "cap", "phases") if key in result}
            whole = {**facts, **packed}
            buffer = Path(path.parent / "trace.json.gz")
            write_json(whole, buffer)
            content = buffer.read_bytes()
            buffer.unlink()
            if used + len(content) + 2048 > TRACES_LIMIT:
                state[name] = "left out: the archive is full"
                continue
            entry = tarfile.TarInfo(f"{name}.json.gz")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
            used += len(content) + 1024
            state[name] = packed.get("problem", "ok")
    return state


def main():
    given = parse_arguments()
    if given.pool:
        run_pool(given.pool)
        return 0
    began = time.time()
    deadline = began + given.deadline
    given.out.mkdir(parents=True, exist_ok=True)
    chosen = chosen_cases(given)
    kinds = [f"run{number}" for number in range(given.runs)] + ([] if given.no_trace else ["trace"])
    limit = max(1, given.jobs // len(kinds))
    trace_kind = "annotate" if given.annotate else "trace"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pools = {}
        for kind in kinds:
            arguments = {"kind": trace_kind} if kind == "trace" else {}
            jobs = [job(case.name, given, case_name=case.name, **arguments) for case in chosen]
            pools[kind] = Pool(kind, [{"limit": limit, "jobs": jobs}], given, folder, deadline)
        results = {kind: pool.results() for kind, pool in pools.items()}
        again = [
            job(f"{kind} {name}", given, case_name=name, **({"kind": trace_kind} if kind == "trace" else {}))
            for kind in kinds
            for name, result in results[kind].items()
            if "error" in result
        ]
        cases = write_results(chosen, results, {}, given, began)["cases"]
        facts = {"name": "environment", "call": "measure:environment", "arguments": {"device": given.device}}
        alone = [] if given.no_alone else [name for name in ALONE if name in cases]
        alone_jobs = [job(f"alone {name}", given, case_name=name, alone=True) for name in alone]
        batches = [
            {"limit": max(1, given.jobs // 3), "jobs": again},
            {"limit": given.jobs, "jobs": cap_jobs(cases, given)},
            {"limit": 1, "jobs": [facts, *alone_jobs]},
        ]
        later = Pool("later", batches, given, folder, deadline).results()
    for name, result in later.items():
        kind, _, rest = name.partition(" ")
        if kind in results:
            results[kind][rest] = result
    measured = write_results(chosen, results, later, given, began)
    failed = [name for name, case in measured["cases"].items() if case.get("errors")]
    print(f"{len(chosen)} cases in {measured['seconds']} s, with errors: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def merge_cases(chosen, results):
    runs = [kind for kind in results if kind != "trace"]
    return {case.name: merge_runs([results[kind][case.name] for kind in runs]) for case in chosen}


def write_results(chosen, results, later, given, began):
    """Both files. Called after the first stage too, so that a run cut short leaves something."""
    cases = merge_cases(chosen, results)
    for name, result in later.items():
        first, _, rest = name.partition(" ")
        if first == "alone":
            cases[rest]["device_used_alone"] = result.get("device_used_alone")
            cases[rest]["reserved_alone"] = result.get("peak_reserved")
        elif first in cases and rest.isdigit():
            cases[first].setdefault("caps", []).append({"percent": int(rest), **without_details(result)})
    if not given.no_trace:
        capped = {name.replace(" ", "."): result for name, result in later.items() if " cap" in name}
        for name, state in write_traces({**results["trace"], **capped}, given.out / "traces.tar").items():
            cases.get(name, {})["trace"] = state
    measured = {"environment": later.get("environment"), "seconds": round(time.time() - began), "cases": cases}
    write_json(measured, given.out / "measured.json")
    return measured


def without_details(result):
    return {key: value for key, value in result.items() if key not in ("settings", "memory_stats", "case", "model")}


if __name__ == "__main__":
    sys.exit(main())
