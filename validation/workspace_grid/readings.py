"""A recorded workspace read as copies of tensors and something within: what it is made of, so that it can be said of another shape.

A reading is (copies, kind, value, rest): how often image, weight and result are copied (0 not, 1 as they are, 2 with channels
padded to 16 bytes, and 3 for a weight whose input channels alone are), and what is added to them:

* CONSTANT: a few bytes (`value`): 16 of a copy, 131 of sm90's kernels, 128 or 256 of counters
* PARTIAL + padding: `value` partial sums of the weight in single precision, and `rest` bytes (ReduceSplitK, cuBLASLt)
* BY_IMAGE: a partial sum of the weight an image
* PRODUCED + padding: `value` partial sums of what the pass makes, in single precision
* DEPTHWISE: eight partial sums an image, channels padded to 32 (wgrad2d_c1_k1_nhwc)
* WINOGRAD: 6 × 6 tiles of image, result and weight (winograd_nonfused, 3 × 3)
* TILES: partial tiles for the GPU's multiprocessors (segment_k_on): `value` bytes
* SINGLE: all three tensors in single precision, and `value` bytes (half precision that runs a kernel of single precision)
* MORE: `value` bytes less than a quarter of the copies; UNREAD: `value` bytes in all
"""

from shapes import product

CONSTANT, PARTIAL, BY_IMAGE, PRODUCED, DEPTHWISE, WINOGRAD, TILES, MORE, UNREAD, SINGLE = 0, 0, 4, 4, 7, 8, 9, 10, 11, 12
NOTHING = (0, 0, 0)
COPIES = [(1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (2, 3, 0), (2, 0, 2), (1, 0, 0), (0, 0, 1), (2, 2, 0),
          (0, 2, 2), (0, 1, 0), (2, 0, 0), (2, 2, 1), (1, 3, 1), (0, 3, 0), (0, 3, 1), (0, 2, 0), (0, 0, 2), (2, 0, 1), (1, 0, 2),
          (1, 2, 2), (1, 2, 0), (2, 1, 1), (2, 1, 0), (1, 1, 2), (0, 2, 1), (2, 3, 2), (1, 2, 1)]  # fmt: skip
FIRST = [(1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 0, 1), (2, 0, 2), (1, 1, 0), (2, 3, 0), (2, 2, 0), (0, 1, 1), (0, 2, 2), NOTHING]
POINTWISE = [(1, 0, 1), (2, 0, 2), (1, 1, 1), (2, 2, 2), (2, 3, 1), (1, 1, 0), (2, 3, 0), (2, 2, 0), NOTHING]
LAST = [(1, 0, 1), (2, 0, 2), (1, 1, 1), (2, 3, 0), (2, 3, 1), (2, 2, 2), (1, 1, 0), (2, 2, 0), (2, 0, 0), (0, 0, 2), NOTHING]
TILE_BYTES = (16384, 32768, 65536, 131072)
MOST_PARTIALS, MOST_PRODUCED = 4096, 256


def depthwise(shape):
    return 32 * shape.batch * -(-shape.inputs // 32) * 32 * product(shape.kernel)


def winograd(shape):
    if shape.kernel != [3, 3] or shape.groups != 1:
        return 0
    tiles = shape.batch * product(-(-side // 4) for side in shape.after)
    return 144 * (shape.inputs * tiles + shape.outputs * tiles + shape.inputs * shape.outputs)


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


def reading(shape, workspace, index):
    """Of the pass with this index: forward, input gradient, weight gradient."""
    if workspace < 2000:
        return NOTHING, CONSTANT, workspace, 0
    if index == 2:
        if workspace == shape.batch * shape.partial(1):
            return NOTHING, BY_IMAGE, 1, 0
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
    tried = candidates(shape)
    if workspace % 4 == 3:
        # 131 bytes of an sm90 kernel are in it; with channels last it reads the tensors as they are.
        order = tried if shape.layout == "first" else sorted(tried, key=lambda item: item[1] > 0)
        for copies, bytes in order:
            left = workspace - bytes
            if left > TILE_BYTES[0] and min(left % tile for tile in TILE_BYTES) < 1400:
                return copies, TILES, left, 0
        return NOTHING, UNREAD, workspace, 0
    for copies, bytes in tried:
        rests = (144, 16, 272, 400, 528) if bytes else (0, 128, 256, 272, 384, 400)
        if index != 2:
            rests += (256, 0)
        for how in (1, 3, 2) if index == 2 else (1, 2):
            part = shape.partial(how) if index == 2 else shape.produced(index, how)
            for rest in rests:
                count, odd = divmod(workspace - bytes - rest, part)
                if odd == 0 and 0 < count < (MOST_PARTIALS if index == 2 else MOST_PRODUCED):
                    return copies, (PARTIAL if index == 2 else PRODUCED) + how, count, rest
    for copies, bytes in tried:
        if 0 < workspace - bytes < bytes / 4:
            return copies, MORE, workspace - bytes, 0
    return NOTHING, UNREAD, workspace, 0


def applied(shape, read, index):
    """What a reading says of a shape."""
    copies, kind, value, rest = read
    if kind == BY_IMAGE:
        return shape.batch * shape.partial(1)
    if kind == DEPTHWISE:
        return depthwise(shape)
    if kind == WINOGRAD:
        return winograd(shape)
    if kind == SINGLE:
        return single(shape) + value
    bytes = shape.copies(copies)
    if 0 < kind < BY_IMAGE:
        return bytes + value * shape.partial(kind - PARTIAL) + rest
    if BY_IMAGE < kind < DEPTHWISE:
        return bytes + value * shape.produced(index, kind - PRODUCED) + rest
    return bytes + value


def named(read):
    """The class of a reading, as a number: copies and kind."""
    (image, weight, result), kind, _, _ = read
    return image + 3 * weight + 12 * result + 36 * kind
