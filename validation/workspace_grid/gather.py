"""Joins what grid.py recorded into validation/measured/workspaces.jsonl.xz, which is kept: python3 gather.py FOLDER… (grid.py's --out)."""

import gzip
import json
import lzma
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "measured" / "workspaces.jsonl.xz"


def main():
    rows = {}
    new = [Path(folder) / f"{name}.jsonl.gz" for folder in sys.argv[1:] for name in ("convolution", "kernels")]
    for path in (path for path in (TARGET, *new) if path.exists()):
        for line in (lzma if path.suffix == ".xz" else gzip).open(path):
            if line.strip():
                row = json.loads(line)
                rows[json.dumps(row[0])] = row[:4]
    lines = [json.dumps(rows[name], separators=(",", ":")) for name in sorted(rows)]
    with lzma.open(TARGET, "wb", preset=9 | lzma.PRESET_EXTREME) as file:
        file.write(("\n".join(lines) + "\n").encode())
    print(len(lines), "shapes")


if __name__ == "__main__":
    main()
