"""Runs the plans on a GPU: under the cap, the starting settings must run out of memory and the printed code must not.

    python3 validation/plan/run.py --plans validation/plan/plans.json.gz --out "$OUT/plans-measured.json.gz"

Each run has its own process. On the CPU (--device cpu --tiny) it only shows that the scripts run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import files

VALIDATION = Path(__file__).resolve().parent.parent
STEPS = 3


def precision(settings):
    """The dtype of the model's inputs: autocast takes them in single precision."""
    name = settings["precision"]
    return name if name in ("bf16", "fp16") else "fp32"


def one(job):
    """In the child: builds the model, then runs the printed code."""
    settings = job["settings"]
    if settings["alloc_conf"]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings["alloc_conf"]
    sys.path.insert(0, str(VALIDATION))
    import torch

    from cases import MODELS, loss_function, make_inputs
    from cases.case import Case

    torch.set_num_threads(2)
    device, tiny = job["device"], job["tiny"]
    entry = MODELS[job["model"]]
    batch, seq = (2, 8 if job["seq"] else None) if tiny else (job["batch"], job["seq"])
    case = Case("plan", job["model"], batch, seq, dtype=precision(settings))
    model = entry.build("cpu", tiny)
    cpu_inputs, cpu_targets = make_inputs(entry, case, tiny)
    if settings.get("channels_last"):
        is_image = {name: tensor.dim() == 4 for name, tensor in cpu_inputs.items()}
        formats = {True: torch.channels_last, False: torch.preserve_format}
        cpu_inputs = {name: tensor.to(memory_format=formats[is_image[name]]) for name, tensor in cpu_inputs.items()}
    result = {"name": job["name"], "kind": job["kind"], "batch": batch}
    if device == "cuda":
        torch.cuda.init()
        total = torch.cuda.get_device_properties(0).total_memory
        # The half byte makes the fraction's rounding irrelevant.
        torch.cuda.set_per_process_memory_fraction(min(1.0, (job["cap"] + 0.5) / total), 0)

    def batches():
        """On the GPU once the model is there; the same ones every time."""
        inputs = {name: tensor.to(device) for name, tensor in cpu_inputs.items()}
        targets = cpu_targets.to(device) if cpu_targets is not None else None
        for _ in range(STEPS * settings["accumulate"]):
            yield inputs if targets is None else (inputs, targets)

    code = job["code"].replace('device = "cuda"', f'device = "{device}"')
    if tiny:
        code = only_known_modules(code, model)
    names = {"model": model, "batches": batches(), "compute_loss": loss_function(entry)}
    del model
    began = time.time()
    try:
        exec(compile(code, "printed", "exec"), names)
        if device == "cuda":
            torch.cuda.synchronize()
    except torch.OutOfMemoryError as error:
        result["died"] = str(error)[:300]
    result["seconds"] = time.time() - began
    if device == "cuda":
        stats = torch.cuda.memory_stats()
        result["peak_allocated"] = torch.cuda.max_memory_allocated()
        result["peak_reserved"] = torch.cuda.max_memory_reserved()
        result["num_alloc_retries"] = stats["num_alloc_retries"]
    return result


def only_known_modules(code, model):
    """A tiny model has fewer layers than the code names."""
    known = {name for name, _ in model.named_modules()}
    kept = []
    for line in code.splitlines():
        text = line.strip()
        if text.startswith('"') and text.endswith('",') and text[1:-2] not in known:
            continue
        kept.append(line)
    return "\n".join(kept) + "\n"


def jobs_of(plans, device, tiny):
    jobs = []
    for planned in plans:
        start = planned["start"]
        common = {key: planned[key] for key in ("name", "model", "seq", "cap")} | {"device": device, "tiny": tiny}
        jobs.append(common | {"kind": "start", "batch": planned["batch"], "settings": start["settings"], "code": start["code"]})
        for plan in planned["plans"]:
            settings = plan["settings"]
            jobs.append(
                common
                | {
                    "kind": f"plan-{plan['effect']}",
                    "batch": settings["batch"],
                    "seq": settings["sizes"].get("seq", planned["seq"]),
                    "settings": settings,
                    "code": plan["code"],
                    "predicted": {key: plan[key] for key in ("peak_allocated", "peak_reserved")},
                }
            )
        for more, kind in ((0, "max-batch"), (1, "max-batch-and-one")):
            batch = planned["max_batch"] + more
            if batch:
                jobs.append(common | {"kind": kind, "batch": batch, "settings": start["settings"], "code": start["code"]})
    order = ("start", "plan-none", "max-batch", "max-batch-and-one", "plan-rounding", "plan-training")
    return sorted(jobs, key=lambda job: order.index(job["kind"]))


def run_job(job, timeout):
    command = [sys.executable, __file__, "--one"]
    try:
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"name": job["name"], "kind": job["kind"], "error": "ran past its time"}
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        result = {"name": job["name"], "kind": job["kind"], "error": done.stderr[-1500:]}
    if "predicted" in job:
        result["predicted"] = job["predicted"]
    return result


def summary(result):
    if "error" in result:
        return "error: " + result["error"].strip().splitlines()[-1]
    state = "died" if "died" in result else "ran"
    if "predicted" in result and result.get("peak_reserved"):
        off = [100 * (result[key] / result["predicted"][key] - 1) for key in ("peak_allocated", "peak_reserved")]
        return f"{state}; allocated {off[0]:+.3f} %, reserved {off[1]:+.3f} % off"
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=Path, default=Path(__file__).parent / "plans.json.gz")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--timeout", type=int, default=120)
    parser.add_argument("--only", default="", help="kinds or pairs that begin so, with commas between")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, for a CPU")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(json.load(sys.stdin))))
        return 0
    jobs = jobs_of(files.read(given.plans), given.device, given.tiny)
    wanted = [part for part in given.only.split(",") if part]
    if wanted:
        jobs = [job for job in jobs if any(job["kind"].startswith(part) or job["name"].startswith(part) for part in wanted)]
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for job, result in zip(jobs, pool.map(lambda job: run_job(job, given.timeout), jobs)):
            results.append(result)
            print(f"{job['name']} {job['kind']} batch {job['batch']}: {summary(result)}", flush=True)
            if given.out:
                files.write(given.out, results)
    return 1 if any("error" in result for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
