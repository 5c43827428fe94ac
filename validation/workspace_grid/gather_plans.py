"""Joins what heuristic.py was answered into validation/measured/plans.jsonl.xz, which is kept:

    python3 gather_plans.py FOLDER[:SEED]… [--target FILE] [--blind FILE] [--more]

FOLDER has a run's plans-N.jsonl.gz (or .xz); SEED is its `--draw` where it was `--bare`. `--blind`: process 15 of the first folder goes to
this file instead, to be asked about. `--target`: another file, such as plans-volumes.jsonl.xz. `--more`: what is in the file stays there. A row is [shape without its batch, [[batch, forward, input gradient, weight gradient], …]].
"""

import argparse
import collections
import gzip
import json
import lzma
from pathlib import Path

import draw

TARGET = Path(__file__).resolve().parents[1] / "measured" / "plans.jsonl.xz"
BLIND = 15


def rows_of(path, seed):
    opened = (lzma if path.suffix == ".xz" else gzip).open(path, "rt")
    number = int(path.name.split("-")[1].split(".")[0])
    answers = (json.loads(line) for line in opened)
    if seed is None:
        return number, list(answers)
    return number, [[shape, *answer] for shape, answer in zip(draw.shapes(seed * 1000 + number), answers)]


def kept(path):
    """What the file has: by layer as text, its batches' workspaces."""
    rows = (json.loads(line) for line in lzma.open(path, "rt"))
    return {json.dumps(layer): {batch: bytes for batch, *bytes in batches} for layer, batches in rows}


def write(rows, path, before=None):
    layers = collections.defaultdict(dict, before or {})
    for shape, *passes in rows:
        if all(passes):
            layers[json.dumps([*shape[:2], *shape[3:]])][shape[2]] = [plans[0][0] for plans in passes]
    with lzma.open(path, "wt", preset=9) as file:
        for layer, batches in sorted(layers.items()):
            rows = [[batch, *bytes] for batch, bytes in sorted(batches.items())]
            file.write(json.dumps([json.loads(layer), rows], separators=(",", ":")) + "\n")
    print(path.name, sum(map(len, layers.values())), "shapes,", path.stat().st_size, "bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--blind", type=Path)
    parser.add_argument("--more", action="store_true")
    arguments = parser.parse_args()
    found, blind = [], []
    for place, folder in enumerate(arguments.folders):
        folder, _, seed = folder.partition(":")
        for path in sorted(Path(folder).glob("**/plans-*")):
            number, rows = rows_of(path, int(seed) if seed else None)
            (blind if arguments.blind and place == 0 and number == BLIND else found).extend(rows)
    write(found, arguments.target, kept(arguments.target) if arguments.more else None)
    if arguments.blind:
        write(blind, arguments.blind)


if __name__ == "__main__":
    main()
