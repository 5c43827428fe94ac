"""Makes the table of recurrent layers' workspaces from what grid.py recorded: python3 pack_recurrent.py recurrent.jsonl.gz

An entry is the settings and the workspace (docs/cudnn-workspaces.md). Writes crates/step/data/cudnn-recurrent.bin.
"""

import gzip
import json
import struct
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[2] / "crates" / "step" / "data" / "cudnn-recurrent.bin"
KINDS = {"LSTM": 0, "GRU": 1, "RNN_TANH": 2, "RNN_RELU": 3}
DTYPES = {"fp32": 0, "bf16": 1, "fp16": 2}


def main():
    entries = []
    for line in gzip.open(sys.argv[1]):
        if not line.strip():
            continue
        (kind, dtype, training, length, batch, inputs, hidden, layers, both, projection, dropout), _, forward, _ = json.loads(line)
        if projection:
            continue
        asked = [event[1] for event in forward if event[0] == "+"]
        workspace = asked[-2] if training else asked[-1]
        entries.append(
            struct.pack("<6B4HI", KINDS[kind], DTYPES[dtype], training, layers, both + 1, bool(dropout and training),
                        length, batch, inputs, hidden, workspace)
        )  # fmt: skip
    TARGET.write_bytes(b"VFRNN1\0\0" + struct.pack("<I", len(entries)) + b"".join(sorted(entries)))
    print(len(entries), "entries,", TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
