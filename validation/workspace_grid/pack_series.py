"""Packs the answers of `dense.py` into crates/cudnn/data/cudnn-series.bin: the workspaces of layers at every batch from 1 on.

    python3 pack_series.py dense-1.gz dense-2.gz …
    python3 pack_series.py --check dense-1.gz …    compares the table with the answers
    python3 pack_series.py --check                 packs what the table holds again and compares the bytes

The packing is lossless. The payload (`series.rs` reads it) is:

    number of layers and number of pairs, 32 bits each
    pairs of symbols, 16 bits a symbol, see `pairs.py`
    offset of each block of records, 32 bits each, counted from the end of this list
    records, sorted by key: how many bytes of the key are those of the key before (none in a block's first record), how many others there are,
    and these; number of batches; lengths of the three series in bytes; one series for each pass, as symbols

A key is the full description of a layer, see `key_of`. A series is the logarithm of a stride, lines (bytes per batch, bytes at batch 0), and runs of
batches that are a stride apart, see `series`. Packing takes four minutes, most of it in `pairs.py`.
"""

import collections
import gzip
import itertools
import json
import multiprocessing
import os
import struct
import sys

import pairs
import table as tables
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
    """A layer: how many batches, and its series."""
    count = min(map(len, passes))
    return count, [min((series(workspaces[:count], stride) for stride in STRIDES), key=len) for workspaces in passes]


def payload(bodies):
    """The payload of a table with these layers, {key: its body}."""
    ordered = sorted(bodies.items())
    table, symbols = pairs.packed([one for _, (_, found) in ordered for one in found])
    symbols, offsets, records = iter(symbols), [], bytearray()
    for index, (key, (count, _)) in enumerate(ordered):
        is_first = index % LAYERS_PER_BLOCK == 0
        if is_first:
            offsets.append(len(records))
        shared = 0 if is_first else len(os.path.commonprefix([key, ordered[index - 1][0]]))
        packed = [pairs.as_bytes(one) for one in itertools.islice(symbols, 3)]
        for part in shared, len(key) - shared, key[shared:], count, *map(len, packed), *packed:
            records += number(part) if isinstance(part, int) else part
    head = struct.pack("<II", len(ordered), len(table)) + pairs.as_bytes([symbol for pair in table for symbol in pair])
    return head + struct.pack(f"<{len(offsets)}I", *offsets) + records


def bodies_of(layers):
    """{key: its body}; layers without a plan at batch 1 are left out."""
    kept = {key: passes for key, passes in layers.items() if all(passes)}
    with multiprocessing.Pool() as pool:
        return dict(zip(kept, pool.map(body, kept.values(), 64)))


def write(layers):
    bodies = bodies_of(layers)
    TARGET.write_bytes(tables.with_header(tables.SERIES, payload(bodies)))
    print(len(bodies), "layers,", sum(count for count, _ in bodies.values()), "shapes,", TARGET.stat().st_size, "bytes")


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

    def bytes(self, length):
        self.place += length
        return self.data[self.place - length : self.place]

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


def skip_key(reader):
    rank = reader.number() >> 3
    for _ in range(3 + 5 * rank):
        reader.number()


def records():
    """For each layer of the shipped table its key, number of batches and series as symbols, and the table's pairs."""
    data = tables.payload_of(TARGET.read_bytes(), tables.SERIES)
    count, made = struct.unpack_from("<II", data)
    symbols = pairs.as_symbols(data[8 : 8 + 4 * made])
    reader, key, found = Reader(data, 8 + 4 * made + 4 * -(-count // LAYERS_PER_BLOCK)), b"", []
    for _ in range(count):
        key = key[: reader.number()] + reader.bytes(reader.number())
        batches, *lengths = (reader.number() for _ in range(4))
        found.append((key, batches, [pairs.as_symbols(reader.bytes(length)) for length in lengths]))
    return found, list(zip(symbols[::2], symbols[1::2]))


def last_batches():
    """{key: up to which batch the table has a layer}."""
    return {key: batches for key, batches, _ in records()[0]}


def unpacked():
    """{key: workspaces by pass, by batch from 1 on} of the shipped table."""
    layers, table = records()
    return {
        key: [read_series(Reader(pairs.expanded(table, symbols), 0), batches) for symbols in found] for key, batches, found in layers
    }


def check(layers):
    found = unpacked()
    for key, passes in found.items():
        assert passes == [workspaces[: len(passes[0])] for workspaces in layers[key]], key
    print(len(found), "layers are as answered")


def check_packing():
    packed = tables.with_header(tables.SERIES, payload(bodies_of(unpacked())))
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
