"""Shapes to ask cuDNN's heuristic about (`heuristic.py`), in an endless order that a seed decides.

Half are layers of common models (`layers.json.gz`) with any batch from 1 to 1024, a fifth are such layers at a run of neighbouring
batches, and the rest are layers of no model: channels that are sums or multiples of usual ones, usual and odd sides.
`volumes` draws three-dimensional layers alone, of which common models have few.
"""

import gzip
import itertools
import json
import math
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent
USUAL_BATCHES = (1, 2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 16, 16, 20, 24, 32, 32, 32, 40, 48, 64, 64, 64, 96, 128, 128, 192, 256, 512)
IMAGES = (32, 48, 64, 64, 96, 96, 112, 128, 128, 144, 160, 192, 224, 224, 224, 224, 224, 256, 256, 288, 299, 320, 384, 448, 512)
KINDS = [("fp32", "first"), ("bf16", "first"), ("fp16", "first"), ("fp32", "last"), ("bf16", "last"), ("fp16", "last")]
SHARES = [36, 20, 10, 10, 16, 8]
CHANNELS = (1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 32, 40, 48, 64, 64, 64, 72, 80, 96, 96, 112, 128, 128, 128, 144, 160, 192,
            192, 224, 256, 256, 256, 288, 320, 384, 448, 512, 512, 640, 768, 1024, 1280, 1536, 2048)  # fmt: skip
SIDES = (4, 7, 8, 12, 14, 16, 20, 24, 28, 28, 32, 32, 36, 40, 48, 56, 56, 64, 64, 72, 80, 96, 112, 112, 128, 128, 144, 160,
         192, 224, 224, 256, 320, 384, 512)  # fmt: skip
DEPTHS = (2, 3, 4, 4, 5, 6, 8, 8, 8, 10, 12, 16, 16, 16, 20, 24, 28, 30, 32, 32, 40, 48, 60, 64, 64, 80, 96, 112, 128, 160)
VOLUME_SIDES = (4, 6, 7, 8, 9, 10, 12, 14, 16, 16, 20, 24, 28, 32, 32, 36, 40, 48, 48, 56, 64, 64, 72, 80, 96, 96, 112, 128, 128, 144, 160, 192, 224)
VOLUME_CHANNELS = (1, 2, 3, 4, 6, 8, 12, 16, 16, 20, 24, 30, 32, 32, 32, 40, 48, 64, 64, 64, 80, 96, 128, 128, 144, 160, 192, 256, 256, 320, 384, 512, 768, 1024)
# Kernel and the strides it is used with; paddings follow.
VOLUME_KERNELS = (
    *([((3, 3, 3), ((1, 1, 1), (1, 1, 1), (1, 1, 1), (2, 2, 2), (2, 2, 2), (1, 2, 2)))] * 8),
    *([((1, 1, 1), ((1, 1, 1), (1, 1, 1), (2, 2, 2), (1, 2, 2)))] * 3),
    *([((2, 2, 2), ((2, 2, 2), (2, 2, 2), (1, 1, 1)))] * 3),
    *([((1, 3, 3), ((1, 1, 1), (1, 1, 1), (1, 2, 2)))] * 2),
    *([((3, 1, 1), ((1, 1, 1), (1, 1, 1), (2, 1, 1)))] * 2),
    ((1, 2, 2), ((1, 2, 2),)),
    ((1, 7, 7), ((1, 2, 2), (1, 1, 1))),
    ((3, 7, 7), ((1, 2, 2), (2, 2, 2))),
    ((5, 7, 7), ((1, 2, 2), (2, 2, 2))),
    ((5, 1, 1), ((1, 1, 1), (4, 1, 1))),
    ((5, 5, 5), ((1, 1, 1), (2, 2, 2))),
    ((7, 7, 7), ((1, 1, 1), (2, 2, 2))),
    ((4, 4, 4), ((2, 2, 2), (4, 4, 4))),
    ((2, 4, 4), ((2, 4, 4),)),
    ((2, 16, 16), ((2, 16, 16),)),
)
MOST_NUMBERS = 1 << 30  # of a tensor; PyTorch cuts larger ones into several


def after(row):
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(row[3], row[6], row[7], row[8], row[9])]


def is_asked(row):
    """Whether there is such a convolution, of a size that is trained, and PyTorch gives it to cuDNN for certain."""
    dtype, layout, batch, spatial, inputs, outputs, _, _, _, _, groups = row
    depthwise = groups == inputs and groups > 1
    result = after(row)
    if min(result) < 1 or (depthwise and (layout == "first" or len(spatial) != 2)):
        return False
    return batch * max(inputs * math.prod(spatial), outputs * math.prod(result)) < MOST_NUMBERS


def batch_of(draw):
    return draw.choice(USUAL_BATCHES) if draw.random() < 0.4 else int(2 ** (10 * draw.random()))


def at_image(layer, image):
    """A layer's numbers from its sides on, for images of this side; cuDNN sees a transposed one as the gradient of one that goes the other way."""
    spatial, inputs, outputs, kernel, stride, padding, dilation, groups, transposed, _ = layer
    if transposed:
        spatial = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)]
        inputs, outputs = outputs, inputs
    if len(spatial) == 2:
        spatial = [max(1, -(-n * image // 224)) for n in spatial]
    return [spatial, inputs, outputs, kernel, stride, padding, dilation, groups]


def layer_of_a_model(draw, layers, weights):
    layer = draw.choices(layers, cum_weights=weights)[0]
    sizes = at_image(layer, draw.choice(IMAGES) if len(layer[0]) == 2 else 0)
    dtype, layout = draw.choices(KINDS, SHARES)[0]
    return [dtype, layout, batch_of(draw), *sizes]


def channels_of(draw):
    """Inputs and outputs, near one another."""
    inputs = draw.choice(CHANNELS)
    return inputs, draw.choice((inputs, inputs, 2 * inputs, max(1, inputs // 2), 4 * inputs, draw.choice(CHANNELS)))


def geometry_of(draw, inputs, outputs):
    """Kernel, stride, padding, dilation and groups of a layer of no model."""
    kernel = draw.choice((1, 1, 2, 3, 3, 3, 3, 3, 4, 5, 7))
    stride = draw.choice((1, 1, 1, 2)) if kernel < 4 else draw.choice((1, 2, kernel))
    stride = 2 if kernel == 2 else stride
    dilation = draw.choice((1,) * 14 + (2, 4)) if kernel in (3, 5) and stride == 1 else 1
    padding = 0 if stride == kernel and kernel > 1 else dilation * (kernel - 1) // 2
    groups = draw.choice((1,) * 8 + (2, 4, 8, 32)) if kernel > 1 else 1
    if inputs % groups or outputs % groups:
        groups = 1
    return kernel, stride, padding, dilation, groups


def layer_of_no_model(draw):
    inputs, outputs = channels_of(draw)
    inputs = draw.choice((inputs,) * 5 + (2 * inputs, inputs + outputs, inputs + draw.choice(CHANNELS)))
    kernel, stride, padding, dilation, groups = geometry_of(draw, inputs, outputs)
    side = draw.choice(SIDES) if draw.random() < 0.7 else draw.randint(2, 320)
    sides = [side, side] if draw.random() < 0.92 else [side, draw.choice(SIDES)]
    dtype, layout = draw.choices(KINDS, SHARES)[0]
    return [dtype, layout, batch_of(draw), sides, inputs, outputs, [kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2, groups]


def weighted_layers():
    """Layers of models and their weights, summed up: those that many models have are drawn more often."""
    layers = json.load(gzip.open(HERE / "layers.json.gz"))
    return layers, list(itertools.accumulate(min(row[-1], 6) + 2 for row in layers))


def layers_of_models(seed):
    draw = random.Random(seed)
    layers, weights = weighted_layers()
    while True:
        yield layer_of_a_model(draw, layers, weights)


def shapes(seed):
    draw = random.Random(seed)
    layers, weights = weighted_layers()
    while True:
        kind = draw.random()
        row = layer_of_a_model(draw, layers, weights) if kind < 0.7 else layer_of_no_model(draw)
        run = [row]
        if kind < 0.02:  # ten neighbours each: a fifth of all
            run = [[*row[:2], row[2] + more, *row[3:]] for more in range(10)]
        yield from (row for row in run if is_asked(row))


def volume(draw):
    """A three-dimensional layer. The gradients of a transposed one are those of the layer that goes the other way."""
    inputs = draw.choice(VOLUME_CHANNELS)
    outputs = draw.choice((inputs, inputs, 2 * inputs, max(1, inputs // 2), draw.choice(VOLUME_CHANNELS)))
    inputs = draw.choice((inputs,) * 5 + (inputs + outputs, draw.randint(1, 512)))
    kernel, strides = draw.choice(VOLUME_KERNELS)
    stride = draw.choice(strides)
    dilation = draw.choice((1,) * 14 + (2,)) if kernel == (3, 3, 3) and stride == (1, 1, 1) else 1
    is_patch = stride == kernel and max(kernel) > 1
    padding = [0 if is_patch or draw.random() < 0.05 else dilation * ((side - 1) // 2) for side in kernel]
    groups = draw.choice((1,) * 12 + (2, 4, 8, inputs)) if max(kernel) > 1 else 1
    if inputs % groups or outputs % groups:
        groups = 1
    side = draw.choice(VOLUME_SIDES) if draw.random() < 0.8 else draw.randint(2, 160)
    depth = draw.choice((side, draw.choice(DEPTHS)))
    other = side if draw.random() < 0.85 else draw.choice(VOLUME_SIDES)
    dtype, layout = draw.choices(KINDS, (32, 28, 20, 6, 8, 6))[0]
    batch = draw.choice((1, 1, 1, 2, 2, 2, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16, 16, 20, 24, 32, 48, 64))
    return [dtype, layout, batch, [depth, side, other], inputs, outputs, list(kernel), list(stride), padding, [dilation] * 3, groups]


def volumes(seed):
    draw = random.Random(seed)
    while True:
        row = volume(draw)
        if is_asked(row):
            yield row
