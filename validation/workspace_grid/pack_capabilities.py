"""Packs the answers of `capabilities.py` into crates/cudnn/data/cudnn-capabilities.bin: workspaces of common layers by compute capability.

    python3 pack_capabilities.py capabilities-*.jsonl.gz
    python3 pack_capabilities.py --check capabilities-*.jsonl.gz    compares the table with the answers
    python3 pack_capabilities.py --check                            packs what the table holds again and compares the bytes

The packing is lossless. The payload (`by_capability.rs` reads it) is:

    number of capabilities, each as major and minor
    number of batches, the batches
    the layers as records of `blocks.py`. After its key a record has the number of series, the length of each, the series, and for each capability
    and pass the number of its series from 1 on, 0 without a plan

All numbers take one byte for each seven bits. A key is that of `pack_series.py`. A series is the number of its lines (bytes
per batch, bytes at batch 0) and runs of batches: the number of a line and a length, or 0, a length, and for each batch the difference from the first line.
"""

import gzip
import json
import multiprocessing
import sys

import blocks
import table as tables
from blocks import Reader, number, signed
from capabilities import BATCHES, CAPABILITIES
from pack_series import key_of

TARGET = tables.DATA / "cudnn-capabilities.bin"
LAYERS_PER_BLOCK = 64


def ending(workspaces, place, line):
    """The first place from here on that is not on the line."""
    slope, start = line
    while place < len(workspaces) and workspaces[place] == slope * BATCHES[place] + start:
        place += 1
    return place


def lines_of(workspaces):
    """Lines (bytes more a batch, bytes at batch 0) on which at least three successive workspaces lie, those of most first."""
    found, place = {}, 0
    while place + 2 < len(workspaces):
        slope, rest = divmod(workspaces[place + 1] - workspaces[place], BATCHES[place + 1] - BATCHES[place])
        line = slope, workspaces[place] - slope * BATCHES[place]
        end = ending(workspaces, place, line)
        if rest or end < place + 3:
            place += 1
            continue
        found[line] = found.get(line, 0) + end - place
        place = end
    return sorted(found, key=lambda line: -found[line])


def series(workspaces):
    lines = lines_of(workspaces)
    slope, start = lines[0] if lines else (0, 0)
    parts, single, place = [], [], 0

    def end_singles():
        if single:
            parts.append(number(0) + number(len(single)) + b"".join(single))
            single.clear()

    while place < len(workspaces):
        end, index = max(((ending(workspaces, place, line), -index) for index, line in enumerate(lines)), default=(place, 0))
        if end > place:
            end_singles()
            parts.append(number(1 - index) + number(end - place))
            place = end
        else:
            single.append(signed(workspaces[place] - slope * BATCHES[place] - start))
            place += 1
    end_singles()
    return number(len(lines)) + b"".join(signed(slope) + signed(start) for slope, start in lines) + b"".join(parts)


def body(answer):
    """The rest of a record: the distinct series, then which of them each capability and pass has."""
    known, chosen = {}, []
    for workspaces in (workspaces for passes in answer for workspaces in passes):
        if None in workspaces:
            chosen.append(0)
            continue
        chosen.append(known.setdefault(series(workspaces), len(known) + 1))
    lengths = b"".join(number(len(one)) for one in known)
    return number(len(known)) + lengths + b"".join(known) + bytes(chosen)


def layers_of(paths):
    """{key: workspaces by capability and pass}, of layers that have a plan somewhere."""
    found = {}
    for path in paths:
        for line in gzip.open(path, "rt"):
            row, answer = json.loads(line)
            found.setdefault(key_of(row), {}).update(answer)
    nothing = [[None]] * 3
    ordered = {key: [answer.get(f"{major}.{minor}", nothing) for major, minor in CAPABILITIES] for key, answer in found.items()}
    return {key: answer for key, answer in ordered.items() if any(None not in workspaces for passes in answer for workspaces in passes)}


def packed(answers):
    with multiprocessing.Pool() as pool:
        records = dict(zip(answers, pool.map(body, answers.values(), 64)))
    capabilities = number(len(CAPABILITIES)) + bytes(part for capability in CAPABILITIES for part in capability)
    batches = number(len(BATCHES)) + b"".join(map(number, BATCHES))
    return capabilities + batches + blocks.packed(records, LAYERS_PER_BLOCK)


def read_series(reader):
    lines = [(reader.signed(), reader.signed()) for _ in range(reader.number())]
    found = []
    while len(found) < len(BATCHES):
        index, length = reader.number(), reader.number()
        slope, start = lines[max(index - 1, 0)] if lines else (0, 0)
        for batch in BATCHES[len(found) : len(found) + length]:
            found.append(slope * batch + start + (0 if index else reader.signed()))
    return found


def unpacked(data):
    """{key: workspaces by capability and pass}, None where there is no plan at every batch."""
    reader = Reader(tables.payload_of(data, tables.CAPABILITIES))
    count = reader.number()
    assert tuple((reader.number(), reader.number()) for _ in range(count)) == CAPABILITIES
    assert tuple(reader.number() for _ in range(reader.number())) == BATCHES
    return {key: read_layer(record) for key, record in blocks.unpacked(reader).items()}


def read_layer(record):
    lengths = [record.number() for _ in range(record.number())]
    known = [read_series(record) for _ in lengths]
    chosen = [record.number() for _ in range(3 * len(CAPABILITIES))]
    return [known[index - 1] if index else None for index in chosen]


def check(answers):
    found = unpacked(TARGET.read_bytes())
    assert found.keys() == answers.keys()
    for key, answer in answers.items():
        flat = [None if None in workspaces else workspaces for passes in answer for workspaces in passes]
        assert found[key] == flat, key
    print(len(found), "layers are as answered")


def check_packing():
    passes = 3
    answers = {
        key: [[workspaces or [None] for workspaces in flat[first : first + passes]] for first in range(0, len(flat), passes)]
        for key, flat in unpacked(TARGET.read_bytes()).items()
    }
    if tables.with_header(tables.CAPABILITIES, packed(answers), tables.DESCRIBED) != TARGET.read_bytes():
        raise SystemExit("packing the table's own numbers again gives other bytes")
    print("packing the table's own numbers again gives the same bytes")


if __name__ == "__main__":
    paths = [path for path in sys.argv[1:] if path != "--check"]
    if "--check" in sys.argv:
        check(layers_of(paths)) if paths else check_packing()
    else:
        answers = layers_of(paths)
        TARGET.write_bytes(tables.with_header(tables.CAPABILITIES, packed(answers), tables.DESCRIBED))
        print(len(answers), "layers,", TARGET.stat().st_size, "bytes")
