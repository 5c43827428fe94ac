"""How fast `torch.autograd.graph.save_on_cpu` copies saved tensors to host memory and back.

    python3 validation/price/host_copies.py --out host_copies.json

Each size is packed and unpacked eight times in a row, as a forward and a backward pass do, five times over; the
median counts. The first round, in which pinned memory is taken from the system, is left out.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch

ROUNDS = 6
TENSORS = 8


def seconds(device, action):
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = action()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, result


def measured(device, size, pinned):
    """Microseconds for one tensor of so many bytes: to the host, and back."""
    hooks = torch.autograd.graph.save_on_cpu(pin_memory=pinned)
    tensors = [torch.empty(size // 4, device=device) for _ in range(TENSORS)]
    packs, unpacks = [], []
    for _ in range(ROUNDS):
        taken, packed = seconds(device, lambda: [hooks.pack_hook(tensor) for tensor in tensors])
        packs.append(taken)
        taken, unpacked = seconds(device, lambda: [hooks.unpack_hook(copy) for copy in packed])
        unpacks.append(taken)
        del packed, unpacked
    per_tensor = [statistics.median(times[1:]) / TENSORS * 1e6 for times in (packs, unpacks)]
    return {"bytes": size, "pinned": pinned, "to_host": round(per_tensor[0], 3), "to_gpu": round(per_tensor[1], 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    given = parser.parse_args()
    sizes = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20]
    rows = [measured(given.device, size, pinned) for pinned in (True, False) for size in sizes]
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    given.out.write_text(json.dumps({"gpu": name, "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
