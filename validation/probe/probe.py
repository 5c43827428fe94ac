"""Records what single operators, optimizers and library handles allocate and free on a GPU.

    python3 validation/probe/probe.py --out "$OUT/probe.json.gz"

Each family runs in its own process, several at a time, and so does each library workspace. A probe that
fails records its error. On the CPU (--device cpu) events are empty: a check that the probes run.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))

import fork_pool  # noqa: E402

fork_pool.prepare_environment()

from measure import write_json  # noqa: E402

BACKENDS = ("default", "cudnn", "efficient", "flash", "math")
FAMILIES = (
    *(f"attention {backend}" for backend in BACKENDS),
    "convolution",
    "recurrent",
    "index",
    "reduce",
    "pointwise",
    "linear",
    "normalize",
    "activation",
    "loss",
    "copy",
    "corners",
    "uncommon",
    "rare",
    "seldom",
)
DTYPES_ON_CPU = ("fp32",)


def probes_of(name):
    family, _, backend = name.partition(" ")
    module = importlib.import_module(f"families.{family}")
    return module.probes(backend) if backend else module.probes()


def warm_up(device):
    """cuBLAS handles and their workspaces, for the main thread and for autograd's."""
    import torch
    from torch.nn import functional

    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, w, b = (torch.rand(shape, device=device).to(dtype).requires_grad_() for shape in ((64, 64), (64, 64), (64,)))
        functional.linear(x, w, b).sum().backward()
        torch.bmm(x[None], w[None]).sum().backward()
        (x @ w).sum().backward()


def run_family(name, device, part=0, parts=1, start=0, limit=None):
    """Every parts-th probe of a family from part on.

    An error of CUDA itself spoils the process: then `next` says which probe a fresh one must go on with.
    """
    import torch
    from recorder import Recorder
    from runner import run_probe

    torch.set_num_threads(1)
    warm_up(device)
    recorder, results = Recorder(device), {}
    chosen = probes_of(name)[part:limit:parts]
    for position in range(start, len(chosen)):
        probe = chosen[position]
        if device == "cpu" and probe.dtype not in DTYPES_ON_CPU:
            continue
        results[probe.key] = run_probe(probe, device, recorder)
        if "CUDA error" in str(results[probe.key]):
            return {"probes": results, "next": position + 1}
    return {"probes": results, "next": None}


def run_workspace(call_name, dtype, amp, device):
    import workspaces

    return {
        "probes": {
            f"workspace|{call_name}|{'amp-' + amp if amp else dtype}": workspaces.run(call_name, dtype, amp, device)
        }
    }


def run_optimizers(device, newer=False):
    import optimizers
    import torch

    torch.set_num_threads(1)
    warm_up(device)
    return {"probes": optimizers.run(device, newer)}


def make_jobs(given):
    import workspaces

    chosen = [name for name in given.families.split(",") if name]
    jobs = []
    for name in FAMILIES:
        if chosen and name.split()[0] not in chosen:
            continue
        slow = name in ("attention default", "attention cudnn")
        parts = 1 if given.device == "cpu" else given.split * (2 if slow else 1)
        for part in range(parts):
            arguments = {"name": name, "device": given.device, "part": part, "parts": parts, "limit": given.limit}
            jobs.append({"name": f"family {name} {part}", "call": "probe:run_family", "arguments": arguments})
    if not chosen or "optimizers" in chosen:
        jobs.append(
            {"name": "family optimizers", "call": "probe:run_optimizers", "arguments": {"device": given.device}}
        )
    if "newer-optimizers" in chosen:
        arguments = {"device": given.device, "newer": True}
        jobs.append({"name": "family newer-optimizers", "call": "probe:run_optimizers", "arguments": arguments})
    if not chosen or "workspaces" in chosen:
        for job in workspaces.jobs():
            name = job.pop("name")
            jobs.append({"name": name, "call": "probe:run_workspace", "arguments": {**job, "device": given.device}})
    return jobs


def run_jobs(jobs, given, report):
    """Again from where an error of CUDA stopped a family, a few times."""
    probes, failed = {}, {}
    for _ in range(4):
        results = fork_pool.run(jobs, given.jobs, given.timeout, given.device, report)
        again = []
        for job in jobs:
            result = results[job["name"]]
            if "error" in result:
                failed[job["name"]] = result
                continue
            probes.update(result["probes"])
            if result.get("next") is not None:
                again.append({**job, "arguments": {**job["arguments"], "start": result["next"]}})
        jobs = again
        if not jobs:
            break
    return {"probes": probes, "failed": failed, "unfinished": [job["name"] for job in jobs]}


def count_errors(probes):
    return sum(
        "error" in result or any(isinstance(part, dict) and "error" in part for part in result.values())
        for result in probes.values()
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--families", default="", help="with commas between; also optimizers, newer-optimizers, workspaces")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--split", type=int, default=2, help="processes a family")
    parser.add_argument("--limit", type=int, help="only the first probes of each family")
    parser.add_argument("--timeout", type=int, default=400, help="seconds for one process")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    given = parser.parse_args()
    import torch  # noqa: F401
    import torchvision  # noqa: F401

    began = time.time()

    def report(name, result, done, total):
        if not name.startswith("workspace") or "error" in result or done == total:
            state = result.get("error") or f"{len(result['probes'])} probes, {result['seconds']} s"
            print(f"{done}/{total} {time.time() - began:.0f} s {name}: {state}", flush=True)

    facts = {"name": "environment", "call": "measure:environment", "arguments": {"device": given.device}}
    environment = fork_pool.run([facts], 1, given.timeout, given.device)["environment"]
    merged = {"environment": environment, **run_jobs(make_jobs(given), given, report)}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(merged, given.out)
    errors = count_errors(merged["probes"])
    print(
        f"{len(merged['probes'])} probes, {errors} with an error; failed: {[*merged['failed'], *merged['unfinished']]}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
