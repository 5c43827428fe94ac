"""Plans for models that no other case has, by the printed code and by `Plan.apply`, under the cap they were made for.

    python validation/plan/apply.py make --count 48 --seed 21 --out validation/plan/drawn-plans.json.gz
    python validation/plan/apply.py run --plans validation/plan/drawn-plans.json.gz --out "$OUT/drawn-measured.json.gz"

``make`` needs no GPU: it draws models of the sweep, captures them without weights and plans them. ``run`` trains each in fresh
processes for 20 steps: the start, which must die under the cap (`start`) and is timed without it (`free`), the printed code
(`code`), and the plan applied to the model before it is moved to the GPU (`after`) and after (`before`: moved before). On the CPU
(``--device cpu --tiny``) it only shows that the scripts run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import drawn
import files

RUNS = ("start", "code", "after", "before", "free")
STEPS = 20


def in_child(what, argument, timeout, environment=None):
    """The answer of a fresh process of this script, or its error."""
    command = [sys.executable, __file__, what]
    try:
        done = subprocess.run(command, input=json.dumps(argument), capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, "VRAMFIT_CUDNN": "off", **(environment or {})})  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {timeout} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]}


def make(given):
    """Draws and plans until there are enough."""
    found, began = [], time.time()
    candidates = drawn.draw(given.seed, given.without, given.libraries.split(","))
    with ThreadPoolExecutor(given.jobs) as pool:
        while len(found) < given.count and time.time() - began < given.seconds:
            some = [case for case, _ in zip(candidates, range(given.jobs))]
            if not some:
                break
            for case in pool.map(lambda case: {**case, **in_child("plan-one", case, given.timeout)}, some):
                name = f"{case['library']}/{case['model']}"
                if "error" in case:
                    print(f"{name}: left out: {case['error']}", flush=True)
                    continue
                found.append(dict(case, name=name))
                best = case["plans"]["after"]
                changes = "; ".join(change["after"] for change in best["changes"])
                print(f"{len(found)} {name}: batch {case['batch']}, cap {case['cap'] >> 20} MiB of {case['start']['peak_reserved'] >> 20}: {changes}", flush=True)
            files.write(given.out, found[: given.count])


def run(given):
    """Every case in every way."""
    cases = files.read(given.plans)
    wanted = [part for part in given.only.split(",") if part]
    ways = [way for way in RUNS if not wanted or way in wanted]
    jobs = []
    for case in cases:
        for way in ways:
            if given.device == "cpu" and way == "start":
                continue
            job = {"case": case, "name": case["name"], "way": way, "steps": given.steps, "device": given.device, "tiny": given.tiny}
            settings = case["start"]["settings"] if way in ("start", "free") else case["plans"]["before" if way == "before" else "after"]["settings"]
            # The printed code sets it before torch is imported, which this process has done by then.
            environment = {"PYTORCH_CUDA_ALLOC_CONF": settings["alloc_conf"]} if way == "code" and settings["alloc_conf"] else {}
            jobs.append((job, environment))
    results, began = [], time.time()

    def one(entry):
        if time.time() - began > given.seconds:
            return {"error": "not started: no time left"}
        return in_child("train-one", entry[0], given.timeout, entry[1])

    with ThreadPoolExecutor(given.jobs) as pool:
        for (job, _), result in zip(jobs, pool.map(one, jobs)):
            result = {"name": job["name"], "way": job["way"], **result}
            results.append(result)
            state = result.get("error") or (f"died in {result['died']}" if "died" in result else f"ran {result['steps']} steps")
            predicted = job["case"]["plans"]["before" if job["way"] == "before" else "after"]
            if job["way"] in ("code", "after", "before") and result.get("peak_reserved"):
                off = [100 * (result[key] / predicted[key] - 1) for key in ("peak_allocated", "peak_reserved")]
                state += f"; allocated {off[0]:+.3f} %, reserved {off[1]:+.3f} % off"
            print(f"{job['name']} {job['way']}: {state}", flush=True)
            if given.out:
                files.write(given.out, results)
    return 1 if any("error" in result for result in results) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for hidden in ("plan-one", "train-one"):
        commands.add_parser(hidden)
    making, running = commands.add_parser("make"), commands.add_parser("run")
    making.add_argument("--count", type=int, default=48)
    making.add_argument("--seed", type=int, default=21)
    making.add_argument("--libraries", default="torchvision,transformers")
    making.add_argument("--without", type=Path, action="append", default=[], help="lines of JSON whose models are not drawn")
    making.add_argument("--out", type=Path, required=True)
    running.add_argument("--plans", type=Path, default=drawn.HERE / "drawn-plans.json.gz")
    running.add_argument("--out", type=Path)
    running.add_argument("--only", default="", help="ways to run, with commas between")
    running.add_argument("--steps", type=int, default=STEPS)
    running.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    running.add_argument("--tiny", action="store_true", help="two samples in a micro-batch, for a CPU")
    for command in (making, running):
        command.add_argument("--jobs", type=int, default=2)
        command.add_argument("--timeout", type=int, default=300, help="seconds for each process")
        command.add_argument("--seconds", type=float, default=1e6, help="none is started after that")
    given = parser.parse_args()
    if given.command == "plan-one":
        print(json.dumps(drawn.planned(json.load(sys.stdin))))
    elif given.command == "train-one":
        print(json.dumps(drawn.trained(json.load(sys.stdin))))
    elif given.command == "make":
        make(given)
    else:
        return run(given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
