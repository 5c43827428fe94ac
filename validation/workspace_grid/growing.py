"""Grows decision trees that predict a workspace form from a shape's features. Needs numpy and rustc (`grow.rs` does the work).

A node is split where the two sides are most of one class (copies and kind) and, with less weight, of one coarse form (numbers alike to a few
hundredths); it becomes a leaf once all its shapes have one coarse form. A leaf predicts the exact form that most of its shapes have.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from forms import BY_IMAGE, DEPTHWISE, GROUPED, MORE, RELATIVE, TILES, UNEXPLAINED

COARSE_WEIGHT = 0.3
FINE = 64  # steps of a doubling that are distinguished where a form's number is bytes
BLOCK = 512
SMALLEST_LEAF = 3
FEATURES_PER_SPLIT = 0.4
TREES = 4
SOURCE = Path(__file__).resolve().parent / "grow.rs"


def classes(forms):
    """Of forms (rows of copies, kind, rest, value): class, coarse form, exact form, as numbers."""
    copies, kind, rest, value = forms.T
    name = copies + 36 * kind
    doublings = np.log2(np.maximum(value, 1))
    is_count = (kind > 0) & (kind < DEPTHWISE) & (kind != BY_IMAGE)
    is_bytes = (kind == TILES) | (kind == MORE) | (kind == UNEXPLAINED) | (kind == RELATIVE) | ((kind == GROUPED) & (value > 1500))
    coarse = np.where(is_count & (value > 8), 1000 + np.round(16 * doublings), np.where(is_bytes, 2000 + np.round(FINE * doublings), value))
    # The allocator returns blocks of at least 512 bytes: sizes within one block are equal.
    coarse = np.where(name == 0, -(-value // BLOCK), np.where(kind == BY_IMAGE, rest, coarse))
    return name, name + (coarse.astype(np.int64) << 26), name + (rest << 10) + (value << 26)


def form_of(exact):
    name = exact & 1023
    return np.stack([name % 36, name // 36, exact >> 10 & 65535, exact >> 26], -1)


def program():
    """The compiled grow.rs."""
    found = Path(tempfile.gettempdir()) / "vramfit-grow"
    given = os.environ.get("VRAMFIT_GROW")
    if not given and (not found.exists() or found.stat().st_mtime < SOURCE.stat().st_mtime):
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", found, SOURCE], check=True)
    return given or found


def leaves(features, feature, threshold, above, leaf):
    """The leaf's form for each column of features."""
    node = np.zeros(features.shape[1], np.int64)
    while True:
        going = np.flatnonzero(feature[node] >= 0)
        if not len(going):
            return leaf[node]
        at = node[going]
        node[going] = np.where(features[feature[at], going] > threshold[at], above[at], at + 1)


def forest(features, forms, trees=TREES):
    """Trees as (feature, threshold, above, exact form)."""
    columns = [np.unique(numbers, return_inverse=True) for numbers in classes(forms)]
    head = np.array([*features.shape, *(len(unique) for unique, _ in columns)], dtype="<u4")
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "shapes"
        with given.open("wb") as file:
            for part in (head, features.astype("<u2"), *(inverse.astype("<u4") for _, inverse in columns)):
                file.write(part.tobytes())
        options = [str(number) for number in (COARSE_WEIGHT, int(FEATURES_PER_SPLIT * len(features)), SMALLEST_LEAF)]
        running = [subprocess.Popen([program(), given, Path(folder) / str(seed), str(seed), *options]) for seed in range(1, trees + 1)]
        if any(one.wait() for one in running):
            raise SystemExit("a tree could not be grown")
        grown = [np.fromfile(Path(folder) / str(seed), dtype="<i4").reshape(4, -1) for seed in range(1, trees + 1)]
    return [(feature, threshold, above, columns[2][0][leaf]) for feature, threshold, above, leaf in grown]


def asked(tree, features):
    """The forms that a tree predicts."""
    return form_of(leaves(features, *tree))
