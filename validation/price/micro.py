"""Micro-benchmarks for the price of a step. Nothing else may run on the GPU.

    python3 validation/price/micro.py --out "$OUT/micro.json"

`--device cpu --tiny` only shows that the script runs.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from pathlib import Path

import torch


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def environment(device):
    facts = {"torch": torch.__version__, "python": platform.python_version(), "processor": processor()}
    facts["cores"] = os.cpu_count()
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts.update(gpu=properties.name, multiprocessors=properties.multi_processor_count, cuda=torch.version.cuda)
        facts["cudnn"] = torch.backends.cudnn.version()
        query = ["nvidia-smi", "--query-gpu=clocks.sm,clocks.mem,clocks.max.sm,power.limit", "--format=csv,noheader"]
        try:
            facts["clocks"] = subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            facts["clocks"] = None
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="", help="parts with commas between")
    parser.add_argument("--deadline", type=float, default=150, help="seconds after which nothing more is begun")
    given = parser.parse_args()
    torch.set_num_threads(1)

    import dispatch
    import kernels
    import optimizers
    import products
    import stacks
    from timing import Clock

    clock = Clock(given.device)
    began = time.time()

    def is_late():
        return time.time() - began > given.deadline

    common = (clock, given.device, given.tiny, is_late)
    parts = {
        "dispatch": lambda: dispatch.rows(clock, is_late),
        "stacks": lambda: stacks.rows(clock, is_late),
        "optimizers": lambda: optimizers.rows(clock, given.tiny, is_late),
        "newer_optimizers": lambda: optimizers.newer_rows(clock, given.tiny, is_late),
        "products": lambda: products.products(*common),
        "kernels": lambda: kernels.rows(*common),
        "attention": lambda: products.attention(*common),
        "batched": lambda: products.batched(*common),
        "recurrent": lambda: products.recurrent(*common),
        "convolutions": lambda: products.convolutions(*common),
    }
    wanted = given.only.split(",") if given.only else list(parts)
    result = {"environment": environment(given.device)}
    # A first product and convolution load the libraries.
    (first := torch.randn(64, 64, device=given.device)) @ first
    for name in wanted:
        start = time.time()
        try:
            rows = parts[name]()
        except Exception as error:  # the other parts are still worth having
            rows = [{"error": f"{type(error).__name__}: {error}"[:500]}]
        failed = sum("error" in row for row in rows)
        result[name] = [
            {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()} for row in rows
        ]
        result.setdefault("seconds", {})[name] = round(time.time() - start, 1)
        print(f"{name}: {len(rows)} rows, {failed} failed, {time.time() - start:.1f} s", flush=True)
        given.out.write_text(json.dumps(result, separators=(",", ":")))
        if given.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
