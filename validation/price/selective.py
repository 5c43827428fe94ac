"""What selective checkpoints cost the CPU: PyTorch dispatches every operator of such a region through Python.

    python3 validation/price/selective.py --out selective.json

Regions of one and of eight layers, each a linear layer, an activation and a norm on tiny tensors, checkpointed without and with
`create_selective_checkpoint_contexts`, which keeps the products. Microseconds for a region, forward and backward.
"""

import argparse
import functools
import json
from pathlib import Path

import torch
from timing import Clock
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

CALLS = 3  # of a layer
REGIONS = 6
KEPT = [torch.ops.aten.addmm.default]


def layers(count, device):
    made = [(nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32)) for _ in range(count)]
    return nn.Sequential(*(module for layer in made for module in layer)).to(device)


def measured(clock, count, is_selective):
    regions = [layers(count, clock.device) for _ in range(REGIONS)]
    held = torch.randn(4, 32, device=clock.device, requires_grad=True)
    arguments = {"context_fn": functools.partial(create_selective_checkpoint_contexts, KEPT)} if is_selective else {}

    def chain():
        out = held
        for region in regions:
            out = checkpoint(region, out, use_reentrant=False, **arguments)
        return out

    def whole():
        chain().sum().backward()
        for region in regions:
            region.zero_grad()

    forward = clock.cpu(chain, 5) / REGIONS
    return {"forward": forward, "backward": clock.cpu(whole, 5) / REGIONS - forward}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    given = parser.parse_args()
    clock = Clock(given.device)
    times = {(count, chosen): measured(clock, count, chosen) for count in (1, 8) for chosen in (False, True)}
    found = {}
    for side in ("forward", "backward"):
        small, large = (times[count, True][side] - times[count, False][side] for count in (1, 8))
        each = (large - small) / 7
        found[side] = {"region": round(small - each, 3), "call": round(each / CALLS, 3)}
    name = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    rows = [{"layers": count, "selective": chosen, **row} for (count, chosen), row in times.items()]
    given.out.write_text(json.dumps({"gpu": name, "torch": torch.__version__, "more": found, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
