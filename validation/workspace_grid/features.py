"""Convolutions as columns of numbers, and the features that trees decide by; `features.rs` has the same list, in the same order. Needs numpy."""

import numpy as np
from shapes import TYPES, three

UNIT = 1024  # of a doubling
MULTIPROCESSORS = 132


class Columns:
    """Sizes of many shapes, a column each."""

    def __init__(self, rows):
        table = np.array([[TYPES.index(row[0]), row[1] == "last", row[2], len(row[3]), *three(row[3], 1), *row[4:6], *three(row[6], 1),
                           *three(row[7], 1), *three(row[8], 0), *three(row[9], 1), row[10]] for row in rows], dtype=np.int64)  # fmt: skip
        self.dtype, self.last, self.batch, self.rank = table[:, :4].T
        self.sides, self.kernel, self.stride, self.padding, self.dilation = (table[:, at : at + 3] for at in (4, 9, 12, 15, 18))
        self.inputs, self.outputs, self.groups = table[:, 7], table[:, 8], table[:, 21]
        self.after = (self.sides + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1
        self.size = np.where(self.dtype == 0, 4, 2)
        self.of_group = self.inputs // self.groups
        self.grouping = np.where((self.groups == self.inputs) & (self.groups > 1), 2, (self.groups > 1).astype(np.int64))


def doublings(numbers):
    return np.round(np.log2(np.maximum(numbers, 1).astype(np.float64)) * UNIT).astype(np.int64)


def evenness(numbers):
    """How often a number can be halved, up to five times."""
    return sum((numbers % (1 << power) == 0).astype(np.int64) for power in range(1, 6))


def tiles(matrix, tile):
    return -(-matrix[0] // tile[0]) * -(-matrix[1] // tile[1])


def features(shapes):
    """One row per feature, one column per shape."""
    batch, inputs, outputs, groups, of_group = shapes.batch, shapes.inputs, shapes.outputs, shapes.groups, shapes.of_group
    area, after, kernel = shapes.sides.prod(1), shapes.after.prod(1), shapes.kernel.prod(1)
    rows, pixels, inner, outputs_of_group = batch * after, batch * area, of_group * kernel, outputs // groups
    side, width, stride, dilation = shapes.sides[:, 2], shapes.kernel[:, 2], shapes.stride[:, 2], shapes.dilation[:, 2]
    unpadded = (side - dilation * (width - 1) - 1) // stride + 1
    # The matrix products that the three passes amount to: rows and columns of their results.
    forward, backward, of_weight = (rows, outputs_of_group), (pixels, of_group), (outputs_of_group, inner)
    wave = lambda matrix, tile: tiles(matrix, tile) % MULTIPROCESSORS  # noqa: E731
    products = lambda matrix, tile: doublings(tiles(matrix, tile))  # noqa: E731
    columns = [
        shapes.dtype > 0, shapes.dtype == 2, shapes.last, shapes.rank, shapes.grouping,
        kernel, width, stride, dilation, shapes.after[:, 2] > unpadded,
        doublings(batch), doublings(area), doublings(inputs), doublings(outputs), doublings(rows), doublings(inner * outputs),
        doublings(groups), doublings(after), doublings(pixels), doublings(rows * outputs), doublings(pixels * inputs),
        doublings(inner), doublings(rows * outputs * inner),
        evenness(inputs), evenness(outputs), evenness(of_group), evenness(after), side, shapes.after[:, 2],
        products((rows, outputs), (128, 128)), products((outputs, inner), (128, 128)), products((pixels, inputs), (128, 128)),
        shapes.sides[:, 1], doublings(outputs_of_group), doublings(of_group), evenness(outputs_of_group), evenness(area), evenness(batch),
        shapes.kernel[:, 1], doublings(kernel * outputs),
        doublings(rows * 1024 // outputs), doublings(inputs * 1024 // outputs), doublings(pixels * 64 // inputs),
        wave(forward, (128, 128)), wave(backward, (128, 128)), wave(of_weight, (128, 128)), wave(forward, (128, 256)), wave(backward, (128, 256)),
        products(forward, (64, 64)), products(backward, (64, 64)), products(of_weight, (64, 64)),
        products(forward, (256, 128)), products(backward, (256, 128)), products(of_weight, (256, 128)),
        products(of_weight, (64, 128)), products(of_weight, (128, 64)),
    ]  # fmt: skip
    return np.ascontiguousarray(np.stack([np.clip(column.astype(np.int64), 0, 65535) for column in columns]).astype(np.uint16))
