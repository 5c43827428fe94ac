"""Derives the form of a recorded workspace: copies of tensors and something added. A form holds for other shapes too; `form.rs` applies it.

A form is (copies, kind, value, rest): how often image, weight and result are copied (0 not, 1 as they are, 2 with channels
padded to 16 bytes, and 3 for a weight whose input channels alone are), and what is added to them:

* CONSTANT: a few bytes (`value`): 16 of a copy, 131 of sm90's kernels, 128 or 256 of counters
* PARTIAL + padding: `value` partial sums of the weight in single precision, and `rest` bytes (ReduceSplitK, cuBLASLt)
* BY_IMAGE: a partial sum of the weight an image, and `rest` bytes
* PRODUCED + padding: `value` partial sums of what the pass makes, in single precision
* DEPTHWISE: eight partial sums an image, channels padded to 32 (wgrad2d_c1_k1_nhwc)
* WINOGRAD: 6 × 6 tiles of image, result and weight (winograd_nonfused, 3 × 3)
* TILES: partial tiles for the GPU's multiprocessors (segment_k_on): `value` bytes
* SINGLE: all three tensors in single precision, and `value` bytes (half precision that runs a kernel of single precision)
* MORE: `value` bytes less than a quarter of the copies; UNEXPLAINED: `value` bytes in all
* GROUPED: all three tensors with the channels of a group padded to a power of two, the same for inputs and outputs, and `value` bytes
* RELATIVE: unexplained and large: `value` of 65,536 parts of the three tensors' bytes
"""

from shapes import product

CONSTANT, PARTIAL, BY_IMAGE, PRODUCED, DEPTHWISE, WINOGRAD, TILES, MORE, UNEXPLAINED, SINGLE, RELATIVE, GROUPED = 0, 0, 4, 4, 7, 8, 9, 10, 11, 12, 13, 14
NOTHING = (0, 0, 0)
COPIES = [(1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (2, 3, 0), (2, 0, 2), (1, 0, 0), (0, 0, 1), (2, 2, 0),
          (0, 2, 2), (0, 1, 0), (2, 0, 0), (2, 2, 1), (1, 3, 1), (0, 3, 0), (0, 3, 1), (0, 2, 0), (0, 0, 2), (2, 0, 1), (1, 0, 2),
          (1, 2, 2), (1, 2, 0), (2, 1, 1), (2, 1, 0), (1, 1, 2), (0, 2, 1), (2, 3, 2), (1, 2, 1)]  # fmt: skip
FIRST = [(1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 0, 1), (2, 0, 2), (1, 1, 0), (2, 3, 0), (2, 2, 0), (0, 1, 1), (0, 2, 2), NOTHING]
POINTWISE = [(1, 0, 1), (2, 0, 2), (1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 1, 0), (2, 3, 0), (2, 2, 0), NOTHING]
LAST = [(1, 0, 1), (2, 0, 2), (1, 1, 1), (2, 3, 0), (2, 3, 1), (2, 2, 2), (1, 1, 0), (2, 2, 0), (2, 0, 0), (0, 0, 2), NOTHING]
TILE_BYTES = (16384, 32768, 65536, 131072)
MOST_TILES = 22_000_000  # bytes, with no sign of an sm90 kernel
SMALL = 1 << 20
PARTS = 65536
BY_IMAGE_RESTS = (0, 256, 272, 400)  # of cuBLASLt: nothing, counters, or what else it asks for
MOST_PARTIALS, MOST_PRODUCED = 4096, 256


def depthwise(shape):
    return 32 * shape.batch * -(-shape.inputs // 32) * 32 * product(shape.kernel)


def winograd(shape):
    if shape.kernel != [3, 3] or shape.groups != 1:
        return 0
    tiles = shape.batch * product(-(-side // 4) for side in shape.after)
    return 144 * (shape.inputs * tiles + shape.outputs * tiles + shape.inputs * shape.outputs)


def grouped(shape):
    """Bytes of all three tensors, the channels of a group padded."""
    if shape.grouping() == 0:
        return 0
    padded = max(4, *(1 << (channels - 1).bit_length() for channels in (shape.of_group, shape.outputs // shape.groups)))
    rows = shape.batch * (product(shape.spatial) + product(shape.after))
    return shape.size * padded * shape.groups * (rows + product(shape.kernel) * padded)


def single(shape):
    """Bytes of all three tensors in single precision."""
    return shape.copies((1, 1, 1)) // shape.size * 4


def candidates(shape):
    """Copies in the order in which they are tried, each size once."""
    order = LAST if shape.layout == "last" else POINTWISE if product(shape.kernel) == 1 else FIRST
    seen, found = set(), []
    for copies in order:
        bytes = shape.copies(copies)
        if bytes not in seen:
            seen.add(bytes)
            found.append((copies, bytes))
    return found


def form(shape, workspace, index):
    """Of the pass with this index: forward, input gradient, weight gradient."""
    if workspace < 2000:
        return NOTHING, CONSTANT, workspace, 0
    if index == 2:
        left = workspace - shape.batch * shape.partial(1)
        if left == 0 or product(shape.kernel) == 1 and left in BY_IMAGE_RESTS:
            return NOTHING, BY_IMAGE, 1, left
        if shape.grouping() == 2 and workspace == depthwise(shape):
            return NOTHING, DEPTHWISE, 1, 0
        if workspace == winograd(shape):
            return NOTHING, WINOGRAD, 1, 0
    for copies in COPIES:
        left = workspace - shape.copies(copies)
        if 0 <= left <= 1300 and (left % 16 == 0 or left % 4 == 3):
            return copies, CONSTANT, left, 0
    left = workspace - single(shape)
    if shape.size == 2 and 0 <= left <= 200 and (left % 16 == 0 or left % 4 == 3):
        return NOTHING, SINGLE, left, 0
    left = workspace - grouped(shape)
    is_more = left % 4 == 3 if shape.grouping() == 2 else are_tiles(left)
    if left < workspace and 0 <= left < MOST_TILES and (is_more or left <= 1300 and (left % 16 == 0 or left % 4 == 3)):
        return NOTHING, GROUPED, left, 0
    tried = candidates(shape)
    if workspace % 4 == 3:
        # 131 bytes of an sm90 kernel are in it; with channels last it reads the tensors as they are.
        order = tried if shape.layout == "first" else sorted(tried, key=lambda item: item[1] > 0)
        for copies, bytes in order:
            left = workspace - bytes
            if are_tiles(left):
                return copies, TILES, left, 0
        return segments(shape, workspace, tried)
    for copies, bytes in tried:
        rests = (144, 16, 272, 400, 528) if bytes else (0, 128, 256, 272, 288, 384, 400)
        if index != 2:
            rests += (256, 0)
        for how in (1, 3, 2) if index == 2 else (1, 2):
            part = shape.partial(how) if index == 2 else shape.produced(index, how)
            for rest in rests:
                count, odd = divmod(workspace - bytes - rest, part)
                if odd == 0 and 0 < count < (MOST_PARTIALS if index == 2 else MOST_PRODUCED):
                    return copies, (PARTIAL if index == 2 else PRODUCED) + how, count, rest
    for copies, bytes in [(NOTHING, 0), *tried]:
        if are_tiles(workspace - bytes) and workspace - bytes < MOST_TILES:
            return copies, TILES, workspace - bytes, 0
    for copies, bytes in tried:
        if 0 < workspace - bytes < min(bytes / 4, SMALL):
            return copies, MORE, workspace - bytes, 0
    return unexplained(shape, workspace)


def are_tiles(bytes):
    return bytes > TILE_BYTES[0] and min(bytes % tile for tile in TILE_BYTES) < 1400


def segments(shape, workspace, tried):
    """Partial sums of which no tile is known: beside the copies they do not depend on the batch, so they are kept in bytes."""
    if shape.layout == "last":
        return unexplained(shape, workspace) if shape.grouping() == 0 or workspace >= MOST_TILES else (NOTHING, TILES, workspace, 0)
    left = workspace - grouped(shape)
    if 0 <= left < workspace:
        return NOTHING, GROUPED, left, 0
    is_padded = shape.of_group % shape.multiple or shape.outputs % shape.multiple
    order = sorted(tried, key=lambda item: 2 not in item[0]) if is_padded else tried
    for copies, bytes in order:
        if 0 <= workspace - bytes:
            return copies, TILES, workspace - bytes, 0
    return unexplained(shape, workspace)


def unexplained(shape, workspace):
    if workspace < SMALL:
        return NOTHING, UNEXPLAINED, workspace, 0
    return NOTHING, RELATIVE, round(workspace * PARTS / shape.copies((1, 1, 1))), 0


def packed(read):
    """A form as four numbers: copies, kind, rest, value."""
    (image, weight, result), kind, value, rest = read
    return image + 3 * weight + 12 * result, kind, rest, value


def applied(shapes, forms, index):
    """Bytes that forms (rows of four numbers) give for shapes (`Columns`), and the bytes of the shapes' three tensors."""
    import numpy as np

    copies, kind, rest, value = forms.T
    multiple = 16 // shapes.size
    up = lambda numbers, by: -(-numbers // by) * by  # noqa: E731
    channels = lambda how: np.where(how == 2, up(shapes.of_group, multiple) * shapes.groups, shapes.inputs)  # noqa: E731
    area, after, kernel = shapes.sides.prod(1), shapes.after.prod(1), shapes.kernel.prod(1)
    image = lambda how: shapes.size * shapes.batch * area * channels(how) * (how > 0)  # noqa: E731
    result = lambda how: shapes.size * shapes.batch * after * np.where(how == 2, up(shapes.outputs, multiple), shapes.outputs) * (how > 0)  # noqa: E731
    numbers = lambda how: kernel * np.where(how >= 2, up(shapes.of_group, multiple), shapes.of_group) * np.where(  # noqa: E731
        how == 2, up(shapes.outputs, multiple), shapes.outputs) * (how > 0)  # fmt: skip
    produced = result if index == 0 else image
    as_is = np.ones_like(kind)
    copied = image(copies % 3) + numbers(copies // 3 % 4) * shapes.size + result(copies // 12)
    plain = image(as_is) + numbers(as_is) * shapes.size + result(as_is)
    tiles = shapes.batch * (-(-shapes.after[:, 1:] // 4)).prod(1)
    power = lambda numbers: 1 << np.ceil(np.log2(np.maximum(numbers, 1))).astype(np.int64)  # noqa: E731
    padded = np.maximum(np.maximum(power(shapes.of_group), power(shapes.outputs // shapes.groups)), 4)
    in_groups = shapes.size * padded * shapes.groups * (shapes.batch * (area + after) + kernel * padded)
    inputs, outputs = shapes.inputs, shapes.outputs
    bytes = np.select(
        [kind == BY_IMAGE, kind == DEPTHWISE, kind == WINOGRAD, kind == SINGLE, kind == RELATIVE, kind == GROUPED, (kind > 0) & (kind < BY_IMAGE),
         (kind > BY_IMAGE) & (kind < DEPTHWISE)],
        [shapes.batch * numbers(as_is) * 4 + rest, 32 * shapes.batch * up(inputs, 32) * kernel,
         144 * (inputs * tiles + outputs * tiles + inputs * outputs), plain // shapes.size * 4 + value, value * plain // PARTS, in_groups + value,
         copied + value * numbers(kind) * 4 + rest, copied + value * (produced(np.maximum(kind - PRODUCED, 0)) // shapes.size * 4) + rest],
        copied + value,
    )  # fmt: skip
    return bytes, plain
