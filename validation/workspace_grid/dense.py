"""Asks cuDNN's heuristic for the workspace of every layer of the models at every batch, one image size, type and layout after another; no kernel is run.

    python3 dense.py --out FOLDER --seconds 500 [--jobs 16] [--done EARLIER]    on a GPU

The heuristic's answer tells its workspace before a plan is built of it (`heuristic.py`, which builds them, holds the two against each other). A row is a
layer at its first batch, then for each pass its workspaces from that batch on, as runs [how many batches, bytes at the first, bytes more at each further one]; a run of
-1 batches says that cuDNN has no plan.
"""

import argparse
import gzip
import json
import random
import time
from pathlib import Path

import draw
import workers
from heuristic import DOWN_CONVERT_INPUTS, FALLBACK, HOPPER, INSTANT, Cudnn, Refused

HERE = Path(__file__).resolve().parent
# Small images come in large batches.
SMALL, MANY, FEWER = (32, 64), 1024, 512
# Side of the images, type, layout, in the order in which they are asked about.
RUNGS = [(224, "fp32", "first"), (224, "bf16", "first"), (128, "fp32", "first"), (64, "fp32", "first"), (32, "fp32", "first"), (224, "bf16", "last"),
         (96, "fp32", "first"), (128, "bf16", "first"), (64, "bf16", "first"), (160, "fp32", "first"), (224, "fp16", "first"), (192, "fp32", "first"),
         ("plain", "fp32", "first"), (256, "fp32", "first"), (224, "fp32", "last"), ("plain", "bf16", "first"), (32, "bf16", "first"),
         (96, "bf16", "first"), (112, "fp32", "first"), (128, "fp16", "first"), (96, "fp16", "first"), (64, "fp16", "first"), ("plain", "fp16", "first"),
         (32, "fp16", "first"), (224, "fp16", "last"), (256, "bf16", "first"), (192, "bf16", "first"), (160, "bf16", "first")]  # fmt: skip


def layers_of(sides):
    """Every layer, in an order that says nothing within a rung: (rung, row at batch 1, up to which batch)."""
    seen = {}
    for rung, (side, dtype, layout) in enumerate(RUNGS):
        rows = []
        for layer in sides.get(str(side), []):
            spatial, *sizes = draw.at_image(layer, 224)
            is_depthwise = sizes[-1] == sizes[0] > 1
            row = [dtype, "last" if is_depthwise and len(spatial) == 2 else layout, 1, spatial, *sizes]
            name, most = json.dumps(row), MANY if side in SMALL else FEWER
            if seen.get(name, 0) < most:
                seen[name] = most
                rows.append((rung, row, most))
        random.Random(rung).shuffle(rows)
        yield from rows


def first_workspace(cudnn, row, index):
    """Of the first plan that PyTorch would take, or None where there is none."""
    try:
        graph = cudnn.graph(row, index)
        for mode, room in ((INSTANT, 1), (INSTANT, 0), (FALLBACK, 0)):
            for config in cudnn.results(graph, mode, room):
                if DOWN_CONVERT_INPUTS not in cudnn.engine(config)[1]:
                    return cudnn.stated_workspace(config)
    except Refused:
        pass
    finally:
        cudnn.release()
    return None


def runs_of(workspaces):
    """Workspaces of successive batches as runs whose bytes grow evenly."""
    runs, at = [], 0
    while at < len(workspaces):
        first = workspaces[at]
        if first is None:
            runs.append([-1, 0, 0])
            at += 1
            continue
        more = workspaces[at + 1] - first if at + 1 < len(workspaces) and workspaces[at + 1] is not None else 0
        count = 1
        while at + count < len(workspaces) and workspaces[at + count] == first + more * count:
            count += 1
        # Two alone are no run: the second may begin a longer one.
        if count == 2 and at + 3 < len(workspaces) and None not in workspaces[at : at + 4]:
            if workspaces[at + 3] - workspaces[at + 2] == workspaces[at + 2] - workspaces[at + 1] != more:
                count, more = 1, 0
        runs.append([count, first, more])
        at += count
    return runs


def done_before(path):
    """Up to which batch layers are in an earlier answer."""
    done = {}
    if path:
        for line in gzip.open(path, "rt"):
            row, runs, *_ = json.loads(line)
            last = row[2] - 1 + sum(abs(run[0]) for run in runs)
            name = json.dumps([*row[:2], 1, *row[3:]])
            done[name] = max(done.get(name, 0), last)
    return done


def work(number, arguments, until):
    """One of several processes: every n-th layer until the time is up."""
    cudnn = Cudnn(HOPPER if arguments.without_device else None)
    sides = json.loads(gzip.open(HERE / "layers-by-side.json.gz").read())
    done, count = done_before(arguments.done), 0
    with gzip.open(Path(arguments.out) / f"dense-{number}.jsonl.gz", "wt", compresslevel=4) as out:
        for place, (rung, row, most) in enumerate(layers_of(sides)):
            start = done.get(json.dumps(row), 0) + 1
            if start > most or place % arguments.jobs != number:
                continue
            if time.time() > until:
                break
            batches = [[*row[:2], batch, *row[3:]] for batch in range(start, most + 1)]
            asked = [batch for batch in batches if draw.is_asked(batch)]
            if not asked:
                continue
            answer = [runs_of([first_workspace(cudnn, batch, index) for batch in asked]) for index in range(3)]
            out.write(json.dumps([asked[0], *answer], separators=(",", ":")) + "\n")
            count += len(asked)
    print(f"{count} shapes up to layer {place} of {RUNGS[rung]}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--done", help="an earlier answer, of which nothing is asked again")
    parser.add_argument("--without-device", action="store_true")
    arguments = parser.parse_args()
    workers.run(work, arguments)


if __name__ == "__main__":
    main()
