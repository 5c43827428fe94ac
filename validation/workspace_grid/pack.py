"""Makes crates/cudnn/data/cudnn-plans.bin from recorded and asked workspaces (docs/cudnn-workspaces.md):

    python3 pack.py validation/measured/workspaces.jsonl.xz validation/measured/plans.jsonl.xz validation/measured/plans-series.jsonl.xz

Decision trees predict a workspace form, which is the choice that cuDNN makes, from a shape's features (`trees.rs` reads them). Needs numpy and rustc; a few minutes
and 6 GB.
"""

import multiprocessing
import struct
import sys

import numpy as np
import table as tables
from blocks import deflated, number
from features import Columns, features
from forms import form, packed
from growing import forest, form_of
from shapes import Shape, key, load

TARGET = tables.DATA / "cudnn-plans.bin"
HEAD, BELOW, NEAR = 3, 64, 32768
MOST_BYTES = (1 << 32) - 1


def forms_of(rows, index):
    """A row of four numbers for each shape: the form of its workspace in this pass."""
    return np.array([packed(form(Shape(row[0]), row[1 + index], index)) for row in rows], dtype=np.int64)


def nodes_of(tree, numbers):
    """A tree's bytes, see `trees.rs`; `numbers` maps exact forms to their indices."""
    feature, threshold, above, exact = (column.tolist() for column in tree)
    is_leaf = [number < 0 for number in feature]
    sizes = [0] * len(feature)  # of a node and everything below it; a leaf is stored in its parent
    for node in reversed(range(len(feature))):
        if not is_leaf[node]:
            leaves = is_leaf[node + 1] + is_leaf[above[node]]
            head = HEAD + 2 * leaves if leaves else HEAD + 2 + (HEAD + 2 + sizes[node + 1] >= NEAR)
            sizes[node] = head + sizes[node + 1] + sizes[above[node]]
    body = bytearray()
    for node in range(len(feature)):
        if is_leaf[node]:
            continue
        ends = [node + 1, above[node]]
        flags = sum(BELOW << place for place, end in enumerate(ends) if is_leaf[end])
        body += struct.pack("<BH", feature[node] | flags, threshold[node])
        if flags:
            body += b"".join(struct.pack("<H", numbers[exact[end]]) for end in ends if is_leaf[end])
            continue
        distance = HEAD + 2 + sizes[node + 1]
        if distance < NEAR:
            body += struct.pack("<H", distance)
        else:
            distance += 1
            body += struct.pack("<HB", distance % NEAR | NEAR, distance // NEAR)
    assert len(body) == sizes[0]
    return bytes(body)


def forms_and_nodes(trees):
    """The forms that the trees of a pass predict, and the nodes of each tree."""
    used = sorted({int(exact) for tree in trees for exact in np.unique(tree[3][tree[0] < 0])})
    numbers = {exact: number for number, exact in enumerate(used)}
    forms = form_of(np.array(used, dtype=np.int64)).tolist()
    packed_forms = b"".join(struct.pack("<BBHI", copies, kind, rest, min(value, MOST_BYTES)) for copies, kind, rest, value in forms)
    return packed_forms, [nodes_of(tree, numbers) for tree in trees]


def payload_of(passes, keys):
    """The payload of a table: for each pass its forms and the nodes of its trees. Forms and nodes are deflated one by one."""
    head, parts = number(len(keys)) + b"".join(bytes(key) for key in sorted(keys)), b""
    for forms, trees in passes:
        head += number(len(trees))
        for part in forms, *trees:
            packed_part = deflated(part)
            head += number(len(packed_part)) + number(len(part))
            parts += packed_part
    return head + parts


def write(forests, keys, path):
    """The table of these trees by pass."""
    passes = [forms_and_nodes(trees) for trees in forests]
    for index, (trees, (forms, _)) in enumerate(zip(forests, passes)):
        print(f"pass {index}: {sum(len(tree[0]) for tree in trees)} nodes of {len(trees)} trees, {len(forms) // 8} forms")
    path.write_bytes(tables.with_header(tables.TREES, payload_of(passes, keys)))
    print(path.stat().st_size, "bytes")


def trees_of(index):
    rows = list(load(sys.argv[1:]).values())
    return list(forest(features(Columns([row[0] for row in rows])), forms_of(rows, index))), {key(row[0]) for row in rows}


def main(target=TARGET):
    with multiprocessing.Pool(3) as pool:
        found = pool.map(trees_of, range(3))
    write([trees for trees, _ in found], found[0][1], target)


if __name__ == "__main__":
    main()
