"""Asks cuDNN's heuristic for the workspaces of common layers on GPUs that are not there, one for each compute capability.

    python3 capabilities.py --out FOLDER --library SITE-PACKAGES [--seconds 500] [--jobs 16]         next to any GPU
    python3 capabilities.py --out FOLDER --library SITE-PACKAGES --without-gpu [--jobs 16]           on any machine

Only the compute capability decides: clocks, caches, memory and multiprocessors do not change an answer (docs/cudnn-workspaces.md). But where no GPU is in
sight, the engines that use cuBLASLt are left out, so pointwise layers are asked about next to one. All others are asked about without a GPU, because one
of another kind takes part in the choice of some of them. About 10.0 cuDNN 9.19 is asked only without a GPU: next to an H200 it ends the process. A row is a layer at batch 1, then for each capability its workspaces by pass, at BATCHES; null where
cuDNN has no plan.
"""

import argparse
import ctypes
import glob
import gzip
import json
import os
import time
from pathlib import Path

import dense
import draw
import heuristic
import workers

NEXT_TO_A_GPU = ((7, 5), (8, 0), (8, 6), (8, 9), (12, 0))
CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (10, 0), (12, 0))
BATCHES = (*range(1, 33), *range(40, 129, 8), *range(160, 513, 32))
RUNGS = [(224, "fp32", "first"), (224, "fp16", "first"), (224, "bf16", "first"), (32, "fp32", "first")]


def load(folder):
    """cuBLASLt first: without it the library ends the process."""
    for library in ("libcublasLt", "libcublas", "libnvrtc"):
        for path in sorted(glob.glob(f"{folder}/nvidia/*/lib/{library}.so.*")):
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(f"{folder}/nvidia/cudnn/lib/libcudnn.so.9", mode=ctypes.RTLD_GLOBAL)


def is_pointwise(row):
    """Whether cuBLASLt could compute it as a product of matrices."""
    *_, kernel, stride, padding, _, groups = row
    return {*kernel, *stride, groups} == {1} and {*padding} == {0}


def answers(cudnn, row, index):
    batches = [[*row[:2], batch, *row[3:]] for batch in BATCHES]
    return [dense.first_workspace(cudnn, batch, index) if draw.is_asked(batch) else None for batch in batches]


def work(number, arguments, until):
    """One of several processes: every n-th layer until the time is up."""
    library = load(arguments.library)
    heuristic.library = lambda _: library
    asked = CAPABILITIES if arguments.without_gpu else NEXT_TO_A_GPU
    cards = {
        f"{major}.{minor}": heuristic.Cudnn({**heuristic.HOPPER, "deviceVer": 100 * major + 10 * minor}) for major, minor in asked
    }
    sides = json.loads(gzip.open(dense.HERE / "layers-by-side.json.gz").read())
    dense.RUNGS = RUNGS
    count = left = 0
    kind = "without" if arguments.without_gpu else "next"
    with gzip.open(Path(arguments.out) / f"capabilities-{kind}-{number}.jsonl.gz", "wt", compresslevel=4) as out:
        for place, (_, row, _) in enumerate(dense.layers_of(sides)):
            if place % arguments.jobs != number or place % arguments.every or arguments.without_gpu == is_pointwise(row):
                continue
            if time.time() > until:
                left += 1
                continue
            answer = {name: [answers(card, row, index) for index in range(3)] for name, card in cards.items()}
            out.write(json.dumps([row, answer], separators=(",", ":")) + "\n")
            count += 1
    print(f"{count} layers, {left} left", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1, help="only every n-th layer, to try it")
    parser.add_argument("--without-gpu", action="store_true")
    arguments = parser.parse_args()
    if arguments.without_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    workers.run(work, arguments)


if __name__ == "__main__":
    main()
