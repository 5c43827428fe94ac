"""Converts cudnn-series.bin from its first format, which found layers by a 64-bit hash, to the format of `pack_series.py`:

    git show 405b073:crates/cudnn/data/cudnn-series.bin > old.bin
    python3 convert_series.py old.bin

The hash left out the padding, so from a stride of 3 on it did not tell all layers apart, and a hash cannot be turned back into a layer. The layers are
those of `measured/plans-series.jsonl.xz`, which has the full description of every layer that was asked about and some of its answers. Each layer is
looked up by its old hash and its answers are compared. The script stops unless every entry of the table has exactly one layer whose answers agree.
"""

import json
import lzma
import struct
import sys
from pathlib import Path

import table as tables
from pack_series import TARGET, Reader, as_two, key_of, payload, read_series
from shapes import TYPES, Shape

LAYERS = tables.ROOT / "validation" / "measured" / "plans-series.jsonl.xz"
MAGIC = b"VFSERIE1"
FIRST, PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def old_hash(row):
    """FNV-1a by number. Of the padding it has only what shows in the sides of the result."""
    shape = Shape(as_two(row))
    found = FIRST
    numbers = (shape.inputs, shape.outputs, shape.groups, *shape.spatial, *shape.after, *shape.kernel, *shape.stride, *shape.dilation)
    for number in (TYPES.index(shape.dtype), int(shape.layout == "last"), *numbers):
        found = (found ^ number) * PRIME & WORD
    return found


def old_records(data):
    """{hash: a layer's bytes}."""
    assert data[:8] == MAGIC, "not a table of the first format"
    (count,) = struct.unpack_from("<I", data, 8)
    hashes = struct.unpack_from(f"<{count}Q", data, 12)
    first = 12 + 12 * count
    starts = [first + offset for offset in struct.unpack_from(f"<{count}I", data, 12 + 8 * count)]
    return {name: data[start:end] for name, start, end in zip(hashes, starts, [*starts[1:], len(data)])}


def agrees(record, answers):
    reader = Reader(record, 0)
    batches, _, _ = reader.number(), reader.number(), reader.number()
    passes = [read_series(reader, batches) for _ in range(3)]
    return all([workspaces[batch - 1] for workspaces in passes] == bytes for batch, *bytes in answers)


def main():
    records = old_records(Path(sys.argv[1]).read_bytes())
    keys, contradicted, from_three, compared = {}, 0, 0, 0
    for line in lzma.open(LAYERS, "rt"):
        layer, answers = json.loads(line)
        row = [*layer[:2], 1, *layer[2:]]
        name = old_hash(row)
        known = keys.setdefault(name, key_of(row))
        # One-dimensional layers were asked about in two layouts, which are the same problem to cuDNN.
        contradicted += known != key_of(row) or not agrees(records[name], answers)
        compared += len(answers)
        from_three += max(row[7]) > 2
    missing = records.keys() - keys.keys()
    print(f"{len(records)} entries, {compared} answers compared, {from_three} layers with a stride of 3 or more,",
          f"{len(missing)} entries without a layer, {contradicted} layers that share a hash or contradict the table")  # fmt: skip
    if missing or contradicted:
        raise SystemExit("not converted")
    TARGET.write_bytes(tables.with_header(tables.SERIES, payload({keys[name]: record for name, record in records.items()})))
    print(TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
