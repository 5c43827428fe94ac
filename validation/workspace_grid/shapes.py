"""Recorded convolutions: their tensors' sizes, what they are compared by, and how a recording is read."""

import gzip
import json
import math

UNIT = 1024  # of a doubling in the features


def product(numbers):
    return math.prod(numbers)


def up(number, multiple):
    return -(-number // multiple) * multiple


def doublings(number):
    return round(math.log2(max(number, 1)) * UNIT)


def evenness(number):
    """How often a number can be halved, at most five times."""
    return min((number & -number).bit_length() - 1, 5)


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

    def produced(self, index, how):
        """What the forward pass or the input's gradient makes, in single precision."""
        return (self.result if index == 0 else self.image)(how) // self.size * 4

    def grouping(self):
        return 2 if self.groups == self.inputs and self.groups > 1 else int(self.groups > 1)

    def group(self):
        three = lambda numbers: tuple((*[1] * (3 - len(numbers)), *numbers))  # noqa: E731
        return (int(self.dtype != "fp32"), int(self.layout == "last"), len(self.spatial), self.grouping(), *three(self.kernel),
                *three(self.stride), int(product(self.dilation) > 1))  # fmt: skip

    def features(self):
        """What neighbours are compared by."""
        weight = self.weight(1) // self.size
        numbers = (self.batch, product(self.spatial), self.inputs, self.outputs, self.batch * product(self.after), weight, self.groups)
        flags = sum(bool(rest) << bit for bit, rest in enumerate((self.inputs % 8, self.outputs % 8, self.inputs % 4, self.outputs % 4)))
        return [doublings(number) for number in numbers], flags | (self.dtype == "fp16") << 4

    def is_padded(self):
        n, k, s, d = self.spatial[-1], self.kernel[-1], self.stride[-1], self.dilation[-1]
        return int(self.after[-1] > (n - d * (k - 1) - 1) // s + 1)

    def traits(self):
        """What trees decide by; `classes.rs` has the same list."""
        area, after, kernel = product(self.spatial), product(self.after), product(self.kernel)
        rows, inner = self.batch * after, self.of_group * kernel
        tiles = lambda high, wide: doublings(-(-high // 128) * -(-wide // 128))  # noqa: E731
        return [
            int(self.dtype != "fp32"), int(self.dtype == "fp16"), int(self.layout == "last"), len(self.spatial), self.grouping(),
            kernel, self.kernel[-1], self.stride[-1], self.dilation[-1], self.is_padded(), doublings(self.batch), doublings(area),
            doublings(self.inputs), doublings(self.outputs), doublings(rows), doublings(inner * self.outputs), doublings(self.groups),
            doublings(after), doublings(self.batch * area), doublings(rows * self.outputs), doublings(self.batch * area * self.inputs),
            doublings(inner), doublings(rows * self.outputs * inner), evenness(self.inputs), evenness(self.outputs),
            evenness(self.of_group), evenness(after), self.spatial[-1], self.after[-1], tiles(rows, self.outputs),
            tiles(self.outputs, inner), tiles(self.batch * area, self.inputs),
        ]  # fmt: skip


def load(paths):
    """(shape, the three workspaces) of every recorded shape."""
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
