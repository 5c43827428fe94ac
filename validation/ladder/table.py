"""The page docs/memory-ladder.md: a Llama of 3 billion parameters with one memory-saving setting after another.

    python3 validation/ladder/table.py BINARY [--check]

`measured.json` was measured on an H200 with `validation/measure/all.py --part 4`; what is predicted is asked of the program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "memory-ladder.md"
GIB = 1 << 30
HEAD = """# From 60 to 4.5 GiB: the same training, one setting after another

A Llama 3.2 of 3 billion parameters, batch 2, sequence 4096. Each row adds to those above it; LoRA replaces the step in the
backward pass and the 8-bit optimizer. Predicted without a GPU, measured on an H200 with torch 2.11, eager mode, in a fresh process
each: what PyTorch allocated at its peak, and what it reserved.

| | `vramfit estimate` adds | predicted | measured | difference | reserved, difference | torchtune's README |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
"""
TAIL = """
The last column is what [torchtune](https://github.com/pytorch/torchtune) publishes for the same model, batch, sequence and type on
an A100. It is another implementation, and from its second row on `torch.compile` is used (51.0 GiB by itself), which is not
simulated here; the steps are the same ones.

`python3 validation/ladder/table.py BINARY` writes this page; the measurement is `python3 validation/measure/all.py --part 4`.
"""


def predicted(binary, flags):
    command = [binary, "estimate", str(HERE / "llama-3b.vramfit"), "--batch", "2", "--seq", "4096", "--gpu", "H200", "--json"]
    done = subprocess.run(command + flags, capture_output=True, text=True, env={**os.environ, "VRAMFIT_CUDNN": "off"})
    return json.loads(done.stdout)


def difference(found, truth):
    return "0" if found == truth else f"{(found - truth) / truth:+.3%}"


def page(binary):
    rows, before = [], []
    for row in json.loads((HERE / "measured.json").read_text())["rows"]:
        flags = row["flags"]
        added = [] if flags[: len(before)] != before and "--lora" not in flags else flags[len(before) :]
        if "--lora" in flags and "--lora" not in before:
            added = flags[flags.index("--lora") :]
        before = flags
        answer = predicted(binary, flags)
        cells = [
            row["step"],
            f"`{' '.join(added)}`" if added else "",
            f"{answer['peak_allocated'] / GIB:.2f} GiB",
            f"{row['peak_allocated'] / GIB:.2f} GiB",
            difference(answer["peak_allocated"], row["peak_allocated"]),
            difference(answer["peak_reserved"], row["peak_reserved"]),
            f"{row['published_gib']:.1f} GiB",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return HEAD + "\n".join(rows) + "\n" + TAIL


def main():
    binary, check = sys.argv[1], "--check" in sys.argv
    text = page(binary)
    if not check:
        PAGE.write_text(text)
    elif PAGE.read_text() != text:
        sys.exit("docs/memory-ladder.md differs from what the program predicts: run validation/ladder/table.py")


if __name__ == "__main__":
    main()
