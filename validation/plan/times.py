"""Step times of the start without its cap and of the printed code under it, one process on the GPU at a time.

    python validation/plan/times.py --plans validation/plan/drawn4-plans.json.gz --out "$OUT/drawn4-times.json.gz"

Processes import libraries beside each other and then wait for their turn on the GPU: only one has a CUDA context. Models are built there, because
where their weights come from does not change a step. On the CPU (``--device cpu --tiny``) it only shows that the scripts run.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import drawn
import files

WAYS = ("start", "code")
# Steps that are not counted: caches fill, kernels load.
WARM = 4
# Counted steps: as many as fit in the seconds, within these bounds.
FEWEST, MOST, SECONDS = 6, 40, 2.0


def timed(job):
    """In the child: the times of the counted steps, in seconds."""
    import torch
    import vramfit.applying.batches as batches

    case, way, device = job["case"], job["way"], job["device"]
    raw = case["start"] if way == "start" else case["plans"]["after"]
    settings = raw["settings"]
    samples = settings["batch"] * settings["accumulate"]
    if job["tiny"]:
        samples = 2 * settings["accumulate"]
    torch.set_num_threads(job["threads"])
    if "8bit" in settings["optimizer"]:
        import bitsandbytes  # noqa: F401 - while others have the GPU
    example = next(example for index, example in enumerate(drawn.examples(case, samples)) if index == case["example"])
    with open(job["turns"], "w") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)
        if time.time() > job["until"]:
            return {"error": "not started: no time left"}
        began = time.time()
        torch.manual_seed(0)
        with torch.device(device):
            model = example.build()
        whole = {name: tensor.cpu() for name, tensor in drawn.named(model, example.inputs(model)).items()}
        if device == "cuda" and way != "start":
            total = torch.cuda.get_device_properties(0).total_memory
            # The half byte makes the fraction's rounding irrelevant. Building may have left temporary tensors in the cache.
            torch.cuda.empty_cache()
            torch.cuda.set_per_process_memory_fraction(min(1.0, (case["cap"] + 0.5) / total), 0)
        ticks = []

        def goes_on():
            if device == "cuda":
                torch.cuda.synchronize()
            ticks.append(time.perf_counter())
            counted = len(ticks) - 1 - WARM
            return counted < FEWEST or (counted < MOST and ticks[-1] - ticks[WARM] < SECONDS)

        def micro_batches():
            while goes_on():
                for part in batches.micro_batches(whole, None, settings["accumulate"]):
                    yield part.kwargs

        code = raw["code"].replace('device = "cuda"', f'device = "{device}"')
        names = {"model": model, "batches": micro_batches(), "compute_loss": example.loss, "targets": None}
        del model
        result = {}
        try:
            exec(compile(code, "printed", "exec"), names)
        except torch.OutOfMemoryError as error:
            result["died"] = str(error)[:200]
        spans = [round(after - before, 6) for before, after in zip(ticks[WARM:], ticks[WARM + 1 :])]
        if device == "cuda":
            result["peak_reserved"] = torch.cuda.max_memory_reserved()
        return {**result, "seconds": spans, "turn": round(time.time() - began, 1)}


def in_child(job, environment, timeout):
    """The answer of a fresh process."""
    try:
        done = subprocess.run([sys.executable, __file__, "--one"], input=json.dumps(job), capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **environment})  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"no end after {timeout} s"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=Path, default=drawn.HERE / "drawn4-plans.json.gz")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=4, help="processes; one of them has the GPU")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each process, waiting included")
    parser.add_argument("--seconds", type=float, default=285, help="no turn begins after that")
    parser.add_argument("--only", default="", help="names of cases that contain one of these, with commas between")
    parser.add_argument("--threads", type=int, default=2, help="of each process")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="two samples in a micro-batch, for a CPU")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(timed(json.load(sys.stdin))))
        return 0
    wanted = [part for part in given.only.split(",") if part]
    jobs = []
    for case in files.read(given.plans):
        if wanted and not any(part in case["name"] for part in wanted):
            continue
        for way in WAYS:
            settings = (case["start"] if way == "start" else case["plans"]["after"])["settings"]
            # The printed code sets it before torch is imported, which the child has done by then.
            environment = {"PYTORCH_CUDA_ALLOC_CONF": settings["alloc_conf"]} if settings["alloc_conf"] else {}
            turns = str(given.out or "/tmp/times") + ".turns"
            jobs.append(({"case": case, "way": way, "device": given.device, "tiny": given.tiny, "threads": given.threads, "turns": turns, "until": time.time() + given.seconds}, environment))
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for (job, _), result in zip(jobs, pool.map(lambda entry: in_child(*entry, given.timeout), jobs)):
            case, way = job["case"], job["way"]
            results.append({"name": case["name"], "way": way, **result})
            spans = sorted(result.get("seconds", []))
            predicted = (case["start"] if way == "start" else case["plans"]["after"])["seconds"]
            state = result.get("error") or result.get("died") or f"{1000 * spans[len(spans) // 2]:.1f} ms of {1000 * predicted:.1f}, turn {result['turn']} s"
            print(f"{case['name']} {way}: {state}", flush=True)
            if given.out:
                files.write(given.out, results)
    if given.out:
        Path(turns).unlink(missing_ok=True)
    return 1 if any("error" in result for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
