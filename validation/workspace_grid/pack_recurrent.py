"""Packs the recorded recurrent layers that a test compares the formulas with into crates/cudnn/data/cudnn-recurrent.bin:

    python3 pack_recurrent.py ../measured/recurrent.jsonl.gz ../measured/recurrent-sweeps.jsonl.gz

An entry holds the settings of a layer and the workspaces of its forward and backward pass, 0 for none (docs/cudnn-workspaces.md).
"""

import gzip
import json
import struct
import sys

import table as tables

TARGET = tables.DATA / "cudnn-recurrent.bin"
KINDS = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}
DTYPES = {"fp32": 0, "bf16": 1, "fp16": 2}


def backward_workspace(events):
    """The largest workspace that is requested twice: once for the gradients of the sequence, once for those of the weights."""
    asked = [event[1] for event in events if event[0] == "+"]
    return max((bytes for bytes in asked if bytes >= 8 << 20 and asked.count(bytes) >= 2), default=0)


def main():
    entries = set()
    for line in (line for path in sys.argv[1:] for line in gzip.open(path)):
        if not line.strip():
            continue
        (kind, dtype, training, length, batch, inputs, hidden, layers, both, projection, dropout), _, forward, backward = json.loads(line)
        asked = [event[1] for event in forward if event[0] == "+"]
        workspace = asked[-2] if training else asked[-1]
        entries.add(
            struct.pack("<6B5HII", KINDS[kind], DTYPES[dtype], training, layers, both + 1, bool(dropout and training),
                        length, batch, inputs, hidden, projection, workspace, backward_workspace(backward) if training else 0)
        )  # fmt: skip
    payload = struct.pack("<I", len(entries)) + b"".join(sorted(entries))
    TARGET.write_bytes(tables.with_header(tables.RECURRENT, payload))
    print(len(entries), "entries,", TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
