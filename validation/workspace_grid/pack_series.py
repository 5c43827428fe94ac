"""Packs the answers of `dense.py` into crates/cudnn/data/cudnn-series.bin: the workspaces of layers at every batch from 1 on.

    python3 pack_series.py dense-1.gz dense-2.gz …
    python3 pack_series.py --check dense-1.gz …    compares the table with the answers
    python3 pack_series.py --check                 packs what the table holds again and compares the bytes

The packing is lossless. The payload (`series.rs` reads it) is the layers as records of `blocks.py`. After its key a record has the number of batches,
the lengths of three series, and one series for each pass.

A key is the full description of a layer, see `key_of`. A series is the logarithm of a stride, lines (bytes per batch, bytes at batch 0), and runs of
batches that are a stride apart, see `series`.
"""

import collections
import gzip
import json
import multiprocessing
import sys

import blocks
import table as tables
from blocks import Reader, number, signed
from shapes import TYPES

TARGET = tables.DATA / "cudnn-series.bin"
STRIDES = (1, 2, 4, 8)
LAYERS_PER_BLOCK = 16


def as_two(row):
    """A row of one dimension as PyTorch runs it, as an image of height one."""
    dtype, layout, batch, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = row
    if len(spatial) > 1:
        return row
    return [dtype, "first", batch, [1, *spatial], inputs, outputs, [1, *kernel], [1, *stride], [0, *padding], [1, *dilation], groups]


def key_of(row):
    """The full description of a layer without its batch, as bytes: type, layout and rank, then channels, groups and the sizes of each dimension.

    Equal keys mean equal layers. The sides of the result follow from what is in the key.
    """
    dtype, layout, _, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = as_two(row)
    head = TYPES.index(dtype) | (layout == "last") << 2 | len(spatial) << 3
    return b"".join(map(number, (head, inputs, outputs, groups, *spatial, *kernel, *stride, *padding, *dilation)))


def expanded(runs):
    """Bytes by batch, up to the first batch for which there is no plan."""
    found = []
    for count, first, more in runs:
        if count < 0:
            break
        found += [first + more * place for place in range(count)]
    return found


def answers_of(paths):
    """Each layer at batch 1 and its workspaces by pass, by batch from 1 on; answers may go on where an earlier one ended."""
    found = {}
    for path in paths:
        for line in gzip.open(path, "rt"):
            row, *answer = json.loads(line)
            _, passes = found.setdefault(json.dumps([*row[:2], *row[3:]]), ([*row[:2], 1, *row[3:]], ([], [], [])))
            for known, runs in zip(passes, answer):
                if row[2] == len(known) + 1:
                    known += expanded(runs)
    return found.values()


def layers_of(paths):
    """{key: workspaces by pass, by batch from 1 on}. One-dimensional layers have one layout, whatever was asked; the first answer is kept."""
    layers = {}
    for row, passes in answers_of(paths):
        layers.setdefault(key_of(row), passes)
    return layers


def lines_of(workspaces, stride):
    """Lines (bytes more a batch, bytes at batch 0) on which at least three workspaces lie, `stride` batches apart, those of most first."""
    found = collections.Counter()
    for place in range(stride):
        while place + 2 * stride < len(workspaces):
            more = workspaces[place + stride] - workspaces[place]
            if more % stride or workspaces[place + 2 * stride] - workspaces[place + stride] != more:
                place += stride
                continue
            line = more // stride, workspaces[place] - more // stride * (place + 1)
            end = ending(workspaces, stride, place, line)
            found[line] += end - place
            place = end
    return [line for line, _ in found.most_common()]


def ending(workspaces, stride, place, line):
    """The first place from here on that is not on the line."""
    slope, start = line
    while place < len(workspaces) and workspaces[place] == slope * (place + 1) + start:
        place += stride
    return place


def series(workspaces, stride):
    lines = lines_of(workspaces, stride)
    parts, single = [], []
    slope, start = lines[0] if lines else (0, 0)

    def end_singles():
        if single:
            parts.append(number(0) + number(len(single)) + b"".join(single))
            single.clear()

    for place in range(stride):
        while place < len(workspaces):
            ends = [(ending(workspaces, stride, place, line), -index) for index, line in enumerate(lines)]
            end, index = max(ends, default=(place, 0))
            if end > place:
                end_singles()
                parts.append(number(1 - index) + number((end - place) // stride))
                place = end
            else:
                single.append(signed(workspaces[place] - slope * (place + 1) - start))
                place += stride
    end_singles()
    head = number(stride.bit_length() - 1) + number(len(lines))
    return head + b"".join(signed(slope) + signed(start) for slope, start in lines) + b"".join(parts)


def body(passes):
    """What a layer's record has after its key: how many batches, and its series."""
    count = min(map(len, passes))
    found = [min((series(workspaces[:count], stride) for stride in STRIDES), key=len) for workspaces in passes]
    return number(count) + b"".join(number(len(one)) for one in found) + b"".join(found)


def bodies_of(layers):
    """{key: its body}; layers without a plan at batch 1 are left out."""
    kept = {key: passes for key, passes in layers.items() if all(passes)}
    with multiprocessing.Pool() as pool:
        return dict(zip(kept, pool.map(body, kept.values(), 64)))


def write(layers):
    TARGET.write_bytes(tables.with_header(tables.SERIES, blocks.packed(bodies_of(layers), LAYERS_PER_BLOCK)))
    batches = last_batches()
    print(len(batches), "layers,", sum(batches.values()), "shapes,", TARGET.stat().st_size, "bytes")


def read_series(reader, count):
    stride = 1 << reader.number()
    lines = [(reader.signed(), reader.signed()) for _ in range(reader.number())]
    order = [place for first in range(stride) for place in range(first, count, stride)]
    found, at = [0] * count, 0
    while at < count:
        index, length = reader.number(), reader.number()
        for place in order[at : at + length]:
            slope, start = lines[index - 1 if index else 0] if lines else (0, 0)
            found[place] = slope * (place + 1) + start + (0 if index else reader.signed())
        at += length
    return found


def records():
    """{key: reader of the rest of the record} of the shipped table."""
    return blocks.unpacked(Reader(tables.payload_of(TARGET.read_bytes(), tables.SERIES)))


def last_batches():
    """{key: up to which batch the table has a layer}."""
    return {key: record.number() for key, record in records().items()}


def read_layer(record):
    """Workspaces by pass, by batch from 1 on."""
    batches, *lengths = (record.number() for _ in range(4))
    return [read_series(Reader(record.bytes(length)), batches) for length in lengths]


def unpacked():
    """{key: workspaces by pass, by batch from 1 on} of the shipped table."""
    return {key: read_layer(record) for key, record in records().items()}


def check(layers):
    found = unpacked()
    for key, passes in found.items():
        assert passes == [workspaces[: len(passes[0])] for workspaces in layers[key]], key
    print(len(found), "layers are as answered")


def check_packing():
    packed = tables.with_header(tables.SERIES, blocks.packed(bodies_of(unpacked()), LAYERS_PER_BLOCK))
    if packed != TARGET.read_bytes():
        raise SystemExit("packing the table's own numbers again gives other bytes")
    print("packing the table's own numbers again gives the same bytes")


if __name__ == "__main__":
    paths = [path for path in sys.argv[1:] if path != "--check"]
    if "--check" not in sys.argv:
        write(layers_of(paths))
    elif paths:
        check(layers_of(paths))
    else:
        check_packing()
