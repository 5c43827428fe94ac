"""Gathers the recorded recurrent layers that the formula is held against: python3 pack_recurrent.py recurrent.jsonl.gz…

An entry is the settings and the workspaces of the forward and of the backward pass, 0 where there was none
(docs/cudnn-workspaces.md). Writes crates/cudnn/data/cudnn-recurrent.bin.
"""

import gzip
import json
import struct
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "crates" / "step" / "data" / "cudnn-recurrent.bin"
KINDS = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}
DTYPES = {"fp32": 0, "bf16": 1, "fp16": 2}


def backward_workspace(events):
    """Asked for twice in a row, for the gradients of the sequence and of the weights: the largest that is."""
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
    TARGET.write_bytes(b"VFRNN3\0\0" + struct.pack("<I", len(entries)) + b"".join(sorted(entries)))
    print(len(entries), "entries,", TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
