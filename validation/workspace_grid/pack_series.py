"""Makes crates/cudnn/data/cudnn-series.bin of what `dense.py` was answered: the workspaces of layers at every batch from 1 on.

    python3 pack_series.py dense-1.gz dense-2.gz …

Nothing is lost: `python3 pack_series.py --check dense-1.gz …` reads the table back and compares. `series.rs` says what is where in it.
"""

import collections
import gzip
import json
import multiprocessing
import struct
import sys
from pathlib import Path

from shapes import TYPES

TARGET = Path(__file__).resolve().parents[2] / "crates" / "step" / "data" / "cudnn-series.bin"
MAGIC = b"VFSERIE1"
STRIDES = (1, 2, 4, 8)
FIRST, PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def as_two(row):
    """A row of one dimension as PyTorch runs it, as an image of height one."""
    dtype, layout, batch, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = row
    if len(spatial) > 1:
        return row
    return [dtype, "first", batch, [1, *spatial], inputs, outputs, [1, *kernel], [1, *stride], [0, *padding], [1, *dilation], groups]


def name_of(row):
    """The hash (FNV-1a, by number) of what a layer is but its batch."""
    dtype, layout, _, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = as_two(row)
    after = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)]
    found = FIRST
    for number in (TYPES.index(dtype), int(layout == "last"), inputs, outputs, groups, *spatial, *after, *kernel, *stride, *dilation):
        found = (found ^ number) * PRIME & WORD
    return found


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
    """{hash: workspaces by pass, by batch from 1 on}. Two layers that differ in nothing but what padding is cut off share a hash; the first has it."""
    layers = {}
    for row, passes in answers_of(paths):
        layers.setdefault(name_of(row), passes)
    return layers


def number(value):
    """Seven bits a byte, the lowest first, the highest bit of each says that more follow."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def signed(value):
    return number(value << 1 if value >= 0 else (-value << 1) - 1)


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
    """A layer: how many batches, how long its first two series are, the series."""
    count = min(map(len, passes))
    found = [min((series(workspaces[:count], stride) for stride in STRIDES), key=len) for workspaces in passes]
    return number(count) + number(len(found[0])) + number(len(found[1])) + b"".join(found)


def write(layers):
    names = sorted(name for name, passes in layers.items() if all(passes))
    with multiprocessing.Pool() as pool:
        bodies = pool.map(body, [layers[name] for name in names], 64)
    places, place = [], 0
    for one in bodies:
        places.append(place)
        place += len(one)
    head = MAGIC + struct.pack("<I", len(names)) + struct.pack(f"<{len(names)}Q", *names) + struct.pack(f"<{len(names)}I", *places)
    TARGET.write_bytes(head + b"".join(bodies))
    print(len(names), "layers,", sum(min(map(len, layers[name])) for name in names), "shapes,", TARGET.stat().st_size, "bytes")


class Reader:
    def __init__(self, data, place):
        self.data, self.place = data, place

    def number(self):
        value = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self):
        value = self.number()
        return -(value + 1 >> 1) if value & 1 else value >> 1


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


def table():
    """{hash: a reader of the layer}."""
    data = TARGET.read_bytes()
    (count,) = struct.unpack_from("<I", data, 8)
    names = struct.unpack_from(f"<{count}Q", data, 12)
    places = struct.unpack_from(f"<{count}I", data, 12 + 8 * count)
    return {name: Reader(data, 12 + 12 * count + place) for name, place in zip(names, places)}


def last_batches():
    """{hash: up to which batch the table has a layer}."""
    return {name: reader.number() for name, reader in table().items()}


def check(layers):
    found = table()
    for name, reader in found.items():
        batches, _, _ = reader.number(), reader.number(), reader.number()
        for workspaces in layers[name]:
            assert read_series(reader, batches) == workspaces[:batches], name
    print(len(found), "layers are as answered")


if __name__ == "__main__":
    paths = [path for path in sys.argv[1:] if path != "--check"]
    (check if "--check" in sys.argv else write)(layers_of(paths))
