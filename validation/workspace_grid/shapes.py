"""Convolutions: their tensors' sizes, and how recordings and answers are read."""

import gzip
import json
import lzma
import math
from pathlib import Path

TYPES = ("fp32", "bf16", "fp16")


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

    def produced(self, index, how):
        """What the forward pass or the input's gradient makes, in single precision."""
        return (self.result if index == 0 else self.image)(how) // self.size * 4

    def grouping(self):
        return 2 if self.groups == self.inputs and self.groups > 1 else int(self.groups > 1)


def three(numbers, fill):
    """As of three dimensions."""
    return [*[fill] * (3 - len(numbers)), *numbers]


def key(row):
    """What convolutions of one kind share: type, layout, dimensions, grouping, kernel, stride, whether it is dilated."""
    shape = Shape(row)
    small = lambda numbers: [min(number, 255) for number in three(numbers, 1)]  # noqa: E731
    return (int(shape.dtype != "fp32"), int(shape.layout == "last"), len(shape.spatial), shape.grouping(), *small(shape.kernel),
            *small(shape.stride), int(product(shape.dilation) > 1))  # fmt: skip


def load(paths):
    """{shape as text: [shape, forward, input gradient, weight gradient]} of recordings (`grid.py`) and of answers (`gather_plans.py`)."""
    rows = {}
    for path in paths:
        is_asked = Path(path).name.startswith("plans")
        for line in (lzma if str(path).endswith(".xz") else gzip).open(path, "rt"):
            row = json.loads(line)
            if is_asked:
                found = [[[*row[0][:2], batch, *row[0][2:]], *bytes] for batch, *bytes in row[1]]
            else:
                found = [[row[0], *(bytes[0] for bytes in row[1:4])]]
                # A search for plans may hold more than 4 GiB at once, which no training would give it.
                found = [one for one in found if max(one[1:]) < 1 << 32]
            # No GPU has room for more: PyTorch goes on to the next plan.
            rows.update({json.dumps(one[0]): one for one in found if max(one[1:]) < 1 << 36})
    return rows
