"""Makes the table of workspaces that vramfit carries from what grid.py recorded.

    python3 validation/workspace_grid/pack.py validation/measured/workspaces.jsonl.gz …  (needs numpy)

Each recorded workspace is read as copies of tensors in the other layout plus a remainder; what is written is that reading,
so that it can be applied to other sizes (docs/cudnn-workspaces.md). Writes crates/step/data/cudnn-convolutions.bin.
"""

import collections
import gzip
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[2] / "crates" / "step" / "data" / "cudnn-convolutions.bin"
UNIT = 1024  # of a doubling in the features
# Weights in halves: batch, area, inputs, outputs, rows of the result, weight, groups.
WEIGHTS = np.array([1, 1, 2, 2, 1, 1, 1])
ALIGNMENT, FLOAT16 = 2 * UNIT, UNIT // 5
BY_IMAGE = 4  # a kind: partial sums of the weight's gradient, one an image
REMAINDERS = (0, 128, 256, 16, 144, 272, 384)

# How often each tensor is copied: (image, weight, result); 0 not, 1 as it is, 2 padded, and for the weight 3 where only
# its input channels are padded.
COPIES = [(1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (2, 3, 0), (2, 0, 2), (1, 0, 0), (0, 0, 1),
          (2, 2, 0), (0, 2, 2), (0, 1, 0), (2, 0, 0)]  # fmt: skip


def product(numbers):
    return math.prod(numbers)


def up(number, multiple):
    return -(-number // multiple) * multiple


class Shape:
    def __init__(self, row):
        (self.dtype, self.layout, self.batch, self.spatial, self.inputs, self.outputs, self.kernel, self.stride,
         self.padding, self.dilation, self.groups) = row  # fmt: skip
        self.after = [(n + 2 * p - d * (k - 1) - 1) // s + 1
                      for n, k, s, p, d in zip(self.spatial, self.kernel, self.stride, self.padding, self.dilation)]  # fmt: skip
        self.size = 4 if self.dtype == "fp32" else 2
        self.multiple = 4 if self.dtype == "fp32" else 8
        self.of_group = self.inputs // self.groups

    def image(self, how):
        channels = up(self.of_group, self.multiple) * self.groups if how == 2 else self.inputs
        return self.size * self.batch * product(self.spatial) * channels if how else 0

    def result(self, how):
        channels = up(self.outputs, self.multiple) if how == 2 else self.outputs
        return self.size * self.batch * product(self.after) * channels if how else 0

    def weight(self, how):
        inputs = up(self.of_group, self.multiple) if how in (2, 3) else self.of_group
        outputs = up(self.outputs, self.multiple) if how == 2 else self.outputs
        return self.size * product(self.kernel) * inputs * outputs if how else 0

    def copies(self, copies):
        image, weight, result = copies
        return self.image(image) + self.weight(weight) + self.result(result)

    def partial(self, how):
        """A weight's gradient in single precision."""
        return self.weight(how) // self.size * 4

    def group(self):
        kind = 2 if self.groups == self.inputs and self.groups > 1 else int(self.groups > 1)
        three = lambda numbers: tuple((*[1] * (3 - len(numbers)), *numbers))  # noqa: E731
        return (int(self.dtype != "fp32"), int(self.layout == "last"), len(self.spatial), kind, *three(self.kernel),
                *three(self.stride), int(product(self.dilation) > 1))  # fmt: skip

    def features(self):
        weight = self.weight(1) // self.size
        numbers = (self.batch, product(self.spatial), self.inputs, self.outputs, self.batch * product(self.after), weight, self.groups)
        flags = sum(bool(rest) << bit for bit, rest in enumerate((self.inputs % 8, self.outputs % 8, self.inputs % 4, self.outputs % 4)))
        return [round(math.log2(max(number, 1)) * UNIT) for number in numbers], flags | (self.dtype == "fp16") << 4


def reading(shape, workspace):
    """(copies, kind, count or bytes, remainder).

    Kind 0: bytes as they are; 1 to 3: so many partial sums of the weight in that padding; 4: one an image.
    """
    if workspace < 2000:
        return (0, 0, 0), 0, workspace, 0
    if workspace == shape.batch * shape.partial(1):
        return (0, 0, 0), BY_IMAGE, 1, 0
    for copies in COPIES:
        if 0 <= workspace - shape.copies(copies) <= 600:
            return copies, 0, workspace - shape.copies(copies), 0
    tried = [(0, 0, 0)]
    is_pointwise = product(shape.kernel) == 1
    if shape.layout == "first":
        tried = [(2, 0, 2), (1, 0, 1), *tried] if is_pointwise else [(2, 2, 2), (2, 3, 1), (1, 1, 1), *tried]
    elif shape.inputs < 8:
        tried = [(2, 3, 0), (1, 1, 1), (2, 3, 1), *tried]
    copies = next(copies for copies in tried if workspace - shape.copies(copies) >= 16 or copies == (0, 0, 0))
    inner = workspace - shape.copies(copies)
    for how in (1, 3, 2):
        for rest in REMAINDERS:
            if inner > rest and (inner - rest) % shape.partial(how) == 0 and (inner - rest) // shape.partial(how) < 1 << 20:
                return copies, how, (inner - rest) // shape.partial(how), rest
    return copies, 0, inner, 0


def applied(shape, read):
    copies, kind, value, rest = read
    if kind == BY_IMAGE:
        return shape.batch * shape.partial(1)
    return shape.copies(copies) + (value * shape.partial(kind) + rest if kind else value)


def load(paths):
    rows, seen = [], set()
    for path in paths:
        for line in gzip.open(path):
            if not line.strip():
                continue
            row = json.loads(line)
            name = json.dumps(row[0])
            # A search for plans may hold more than 4 GiB at once, which no training would give it.
            if name not in seen and all(found[0] < 1 << 32 for found in row[1:4]):
                seen.add(name)
                rows.append((Shape(row[0]), [found[0] for found in row[1:4]]))
    return rows


class Table:
    """The kept shapes of one group."""

    def __init__(self, count):
        self.features = np.zeros((count, 7), dtype=np.int64)
        self.flags = np.zeros(count, dtype=np.int64)
        self.kept = []

    def add(self, item, features, flags):
        self.features[len(self.kept)], self.flags[len(self.kept)] = features, flags
        self.kept.append(item)

    def distances(self, features, flags):
        count = len(self.kept)
        far = (np.abs(self.features[:count] - features) * WEIGHTS).sum(1)
        differing = self.flags[:count] ^ flags
        return far + sum(((differing >> bit) & 1) * ALIGNMENT for bit in range(4)) + (differing >> 4 & 1) * FLOAT16

    def nearest(self, features, flags):
        return self.kept[int(np.argmin(self.distances(features, flags)))] if self.kept else None


def grouped(rows):
    """The shapes by group, those of a group by their input channels: a search starts there and goes outwards."""
    groups = collections.defaultdict(list)
    for shape, found in rows:
        groups[shape.group()].append((shape, found, [reading(shape, workspace) for workspace in found]))
    tables = {}
    for group, items in sorted(groups.items()):
        items.sort(key=lambda item: (item[0].inputs, item[0].features()))
        tables[group] = Table(len(items))
        for item in items:
            tables[group].add(item, *item[0].features())
    return tables


def write(tables, path):
    groups, entries = b"", []
    count = 0
    for group, table in tables.items():
        groups += struct.pack("<11BxI", *group, count)
        for number, (_, _, read) in enumerate(table.kept):
            entries.append(struct.pack("<8H", *map(int, table.features[number]), int(table.flags[number])))
            for (image, weight, result), kind, value, rest in read:
                entries.append(struct.pack("<BBHI", image + 3 * weight + 12 * result, kind, rest, value))
            count += 1
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"VFCONV1\0" + struct.pack("<II", len(tables), count) + groups + b"".join(entries))
    return count


def main():
    rows = load(sys.argv[1:])
    tables = grouped(rows)
    count = write(tables, TARGET)
    print(f"{count} shapes in {len(tables)} groups, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
