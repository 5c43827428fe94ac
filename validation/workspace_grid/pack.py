"""Makes the two tables of convolution workspaces from what grid.py recorded (docs/cudnn-workspaces.md):

    python3 pack.py validation/measured/workspaces.jsonl.gz…

`crates/step/data/cudnn-convolutions.bin`: the recorded shapes with their readings. `crates/step/data/cudnn-classes.bin`: trees
that find a reading's class, which is the choice cuDNN makes, from a shape's traits. Needs numpy and scikit-learn.
"""

import collections
import struct
import sys
from pathlib import Path

import numpy as np
from readings import named, reading
from shapes import load
from sklearn.ensemble import RandomForestClassifier

DATA = Path(__file__).resolve().parents[2] / "crates" / "step" / "data"
TREES, SMALLEST_LEAF, TRAITS_A_SPLIT = 6, 2, 0.5
LEAF = 255
INPUTS, OUTPUTS = 2, 3  # among the features


def forest(traits, classes):
    """Trees that find the class from the traits."""
    model = RandomForestClassifier(TREES, min_samples_leaf=SMALLEST_LEAF, max_features=TRAITS_A_SPLIT, bootstrap=False, random_state=1, n_jobs=2)
    return model.fit(traits, classes)


def write_table(rows, path):
    """The shapes by group, those of a group by their channels: a search starts there and goes outwards."""
    groups = collections.defaultdict(list)
    for shape, found in rows:
        groups[shape.group()].append((shape, found))
    head, entries, count = b"", [], 0
    for group, items in sorted(groups.items()):
        items.sort(key=lambda item: (item[0].features()[0][INPUTS], item[0].features()[0][OUTPUTS], item[0].features()))
        head += struct.pack("<11BxI", *group, count)
        for shape, found in items:
            features, flags = shape.features()
            entries.append(struct.pack("<8H", *features, flags))
            for index, workspace in enumerate(found):
                (image, weight, result), kind, value, rest = reading(shape, workspace, index)
                entries.append(struct.pack("<BBHI", image + 3 * weight + 12 * result, kind, rest, value))
            count += 1
    path.write_bytes(b"VFCONV3\0" + struct.pack("<II", len(groups), count) + head + b"".join(entries))
    print(f"{count} shapes in {len(groups)} groups, {path.stat().st_size} bytes")


def flattened(tree, classes):
    """A tree's nodes in the order they are met, the left one right after its parent: trait, threshold, the right one's number."""
    nodes = []

    def add(number):
        place = len(nodes)
        nodes.append(None)
        if tree.children_left[number] < 0:
            nodes[place] = (LEAF, int(classes[tree.value[number][0].argmax()]), 0)
            return
        add(tree.children_left[number])
        nodes[place] = (int(tree.feature[number]), int(np.floor(tree.threshold[number])), len(nodes))
        add(tree.children_right[number])

    add(0)
    return nodes


def write_trees(rows, path):
    traits = np.array([shape.traits() for shape, _ in rows], dtype=np.float32)
    head, body, count = b"", [], 0
    for index in range(3):
        model = forest(traits, np.array([named(reading(shape, found[index], index)) for shape, found in rows]))
        for estimator in model.estimators_:
            nodes = flattened(estimator.tree_, model.classes_)
            head += struct.pack("<II", index, count)
            for trait, threshold, right in nodes:
                body.append(struct.pack("<BHI", trait, threshold, right)[:6])
            count += len(nodes)
    path.write_bytes(b"VFTREE1\0" + struct.pack("<I", 3 * TREES) + head + b"".join(body))
    print(f"{count} nodes of {3 * TREES} trees, {path.stat().st_size} bytes")


def main():
    sys.setrecursionlimit(10_000)
    rows = load(sys.argv[1:])
    write_table(rows, DATA / "cudnn-convolutions.bin")
    write_trees(rows, DATA / "cudnn-classes.bin")


if __name__ == "__main__":
    main()
