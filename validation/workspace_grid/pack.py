"""Makes crates/step/data/cudnn-plans.bin from recorded and asked workspaces (docs/cudnn-workspaces.md):

    python3 pack.py validation/measured/workspaces.jsonl.gz validation/measured/plans.jsonl.xz

Trees that name a reading, which is the choice cuDNN makes, from a shape's traits (`trees.rs` reads them). Needs numpy and numba; a few minutes
and 6 GB.
"""

import multiprocessing
import struct
import sys
from pathlib import Path

import numpy as np
from growing import forest, reading_of
from readings import packed, reading
from shapes import Shape, key, load
from traits import Columns, traits

TARGET = Path(__file__).resolve().parents[2] / "crates" / "step" / "data" / "cudnn-plans.bin"
LEAF, FAR, NEAR = 255, 128, 65535
MOST_BYTES = (1 << 32) - 1


def reads_of(rows, index):
    """A row of four numbers for each shape: what its workspace in this pass is made of."""
    return np.array([packed(reading(Shape(row[0]), row[1 + index], index)) for row in rows], dtype=np.int64)


def nodes_of(tree, numbers):
    """A tree's bytes: three a leaf, five a node, six where what is above begins far away; `numbers` says which reading an exact one is."""
    trait, threshold, above, exact = tree
    sizes = np.where(trait < 0, 3, 5)
    while True:
        places = np.concatenate([[0], np.cumsum(sizes)])
        is_far = (trait >= 0) & (places[above] - places[:-1] > NEAR) & (sizes == 5)
        if not is_far.any():
            break
        sizes = np.where(is_far, 6, sizes)
    body = bytearray()
    for node in range(len(trait)):
        if trait[node] < 0:
            body += struct.pack("<BH", LEAF, numbers[exact[node]])
        else:
            far = sizes[node] == 6
            body += struct.pack("<BHI", trait[node] | (FAR if far else 0), threshold[node], places[above[node]] - places[node])[: sizes[node]]
    return bytes(body)


def write(forests, keys, path):
    """The table of these trees by pass."""
    heads, readings, bodies, place = b"", b"", b"", 0
    counts = []
    for index, trees in enumerate(forests):
        used = sorted({int(exact) for tree in trees for exact in np.unique(tree[3][tree[0] < 0])})
        numbers = {exact: number for number, exact in enumerate(used)}
        for copies, kind, rest, value in reading_of(np.array(used, dtype=np.int64)).tolist():
            readings += struct.pack("<BBHI", copies, kind, rest, min(value, MOST_BYTES))
        counts.append(len(used))
        for tree in trees:
            body = nodes_of(tree, numbers)
            heads += struct.pack("<II", index, place)
            bodies += body
            place += len(body)
        print(f"pass {index}: {sum(len(tree[0]) for tree in trees)} nodes of {len(trees)} trees, {len(used)} readings")
    head = struct.pack("<II3I", len(keys), sum(map(len, forests)), *counts)
    path.write_bytes(b"VFPLAN1\0" + head + heads + b"".join(bytes(key) for key in sorted(keys)) + readings + bodies)
    print(path.stat().st_size, "bytes")


def trees_of(index):
    rows = list(load(sys.argv[1:]).values())
    return list(forest(traits(Columns([row[0] for row in rows])), reads_of(rows, index))), {key(row[0]) for row in rows}


def main():
    with multiprocessing.Pool(3) as pool:
        found = pool.map(trees_of, range(3))
    write([trees for trees, _ in found], found[0][1], TARGET)


if __name__ == "__main__":
    main()
