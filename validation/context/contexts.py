"""Makes the table of CUDA contexts in the catalogue out of published figures.

    python3 validation/context/contexts.py [--check]

It reads published.jsonl beside it and the GPUs in crates/catalogue/data/gpus.txt. It writes crates/catalogue/data/contexts.txt and
the tables in docs/cuda-context.md. With --check it writes nothing and fails if either differs. validation/README.md describes the rows.
"""

import argparse
import json
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GPUS = ROOT / "crates/catalogue/data/gpus.txt"
TABLE = ROOT / "crates/catalogue/data/contexts.txt"
PAGE = ROOT / "docs/cuda-context.md"
# What is between these headings of the page is written.
BEGIN, END = "### Figures and prediction\n", "### What the estimates do with it\n"

HEADER = """\
# CUDA contexts from published figures. validation/context/contexts.py writes this file; do not edit it.
#
# The context depends on the compute capability and the number of multiprocessors, so a row is for every GPU that has both.
# low, expected, high   MiB of a training process outside PyTorch's allocator, libraries included
# figures               published figures of processes that compute; `expected` is their median
# bare                  published figures of processes that only have a context
# rows                  ids in validation/context/published.jsonl
#
# rule                  for all other GPUs: `fixed` MiB and `bytes` for each thread that can be resident on the GPU; `low` and
#                       `high` are shares of that
"""


def threads_per_multiprocessor(compute):
    """As ComputeCapability::threads_per_multiprocessor in crates/catalogue."""
    if compute == "7.5":
        return 1024
    return 1536 if compute in ("8.6", "8.7", "8.9") or compute.startswith("12.") else 2048


def gpus():
    rows = [line.split("|") for line in GPUS.read_text().splitlines() if line and not line.startswith("#")]
    return {row[0].strip(): (row[2].strip(), int(row[4])) for row in rows}


def figure(row):
    """MiB outside PyTorch's allocator."""
    if "mib" in row:
        return row["mib"]
    return (row["process_gib"] - row["allocated_gib"]) * 1024 - row["unallocated_mib"]


class Chip:
    """All GPUs with one compute capability and one number of multiprocessors."""

    def __init__(self, compute, multiprocessors):
        self.compute, self.multiprocessors = compute, multiprocessors
        self.threads = multiprocessors * threads_per_multiprocessor(compute)
        self.names, self.ids, self.loaded, self.bare = [], [], [], []

    @property
    def expected(self):
        return median(self.loaded)


def chips():
    known, found = gpus(), {}
    for line in (HERE / "published.jsonl").read_text().splitlines():
        row = json.loads(line)
        key = known[row["gpu"]]
        chip = found.setdefault(key, Chip(*key))
        if row["gpu"] not in chip.names:
            chip.names.append(row["gpu"])
        chip.ids.append(row["id"])
        (chip.loaded if row["state"] == "loaded" else chip.bare).append(figure(row))
    return sorted(found.values(), key=lambda chip: (tuple(map(int, chip.compute.split("."))), chip.multiprocessors))


def fit(points):
    """The line with the least sum of squared relative errors through (size, figure)."""
    a = sum(1 / y**2 for _, y in points)
    b = sum(x / y**2 for x, y in points)
    c = sum(x**2 / y**2 for x, y in points)
    d = sum(1 / y for _, y in points)
    e = sum(x / y for x, y in points)
    return (c * d - b * e) / (a * c - b * b), (a * e - b * d) / (a * c - b * b)


class Rule:
    """A line through the expected contexts of all chips, over `size`, with what it predicts for each chip without that chip."""

    def __init__(self, all_chips, size):
        computing = [chip for chip in all_chips if chip.loaded]

        def line(chips):
            return fit([(size(chip), chip.expected) for chip in chips])

        self.fixed, self.slope = line(computing)
        self.predicted = {}
        for chip in all_chips:
            fixed, slope = line([other for other in computing if other is not chip])
            self.predicted[chip] = fixed + slope * size(chip)
        self.errors = [chip.expected / self.predicted[chip] - 1 for chip in computing]
        shares = [mib / self.predicted[chip] for chip in all_chips for mib in chip.loaded + chip.bare]
        self.low, self.high = min(shares), max(shares)


def bands(all_chips):
    """Low and high for each chip with figures: its own figures, and no less than the spread of any chip's figures around their median."""
    shares = [mib / chip.expected for chip in all_chips for mib in chip.loaded]
    low, high = min(shares), max(shares)
    found = {}
    for chip in all_chips:
        if chip.loaded:
            own = chip.loaded + chip.bare
            found[chip] = (min(own + [low * chip.expected]), max(own + [high * chip.expected]))
    return found, low, high


def table(all_chips, rule, found):
    text = HEADER
    text += "# rule | fixed | bytes | low  | high\n"
    text += f"rule   | {rule.fixed:<5.0f} | {rule.slope * (1 << 20):<5.0f} | {rule.low:.2f} | {rule.high:.2f}\n"
    rows = [["# compute", "SMs", "low", "expected", "high", "figures", "bare", "measured on", "rows"]]
    for chip, (low, high) in found.items():
        numbers = [chip.multiprocessors, *(round(mib) for mib in (low, chip.expected, high)), len(chip.loaded), len(chip.bare)]
        ids = " ".join(map(str, chip.ids))
        rows.append([chip.compute, *map(str, numbers), ", ".join(chip.names), ids])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        text += " | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n"
    return text


def page(all_chips, rule, by_multiprocessors, found, low, high):
    def worst(errors):
        return f"{100 * median(map(abs, errors)):.0f} % median, {100 * max(map(abs, errors)):.0f} % worst"

    figures = sum(len(chip.loaded) + len(chip.bare) for chip in all_chips)
    text = f"""
{figures} figures, {sum(len(chip.loaded) for chip in all_chips)} of them of processes that compute. MiB; *predicted* is the rule's answer when this row is left out.

| measured on | SMs | threads | only a context | computing: lowest, median, highest | predicted | published / predicted | band |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
    for chip in all_chips:
        bare = " ".join(f"{mib:.0f}" for mib in sorted(chip.bare)) or "-"
        computing, ratio, band = "-", "-", "by the rule"
        if chip.loaded:
            computing = f"{min(chip.loaded):.0f}, {chip.expected:.0f}, {max(chip.loaded):.0f} ({len(chip.loaded)})"
            ratio = f"{chip.expected / rule.predicted[chip]:.2f}"
            band = "{:.0f} to {:.0f}".format(*found[chip])
        cells = [", ".join(chip.names), chip.multiprocessors, f"{chip.threads:,}", bare, computing, f"{rule.predicted[chip]:.0f}", ratio, band]
        text += "| " + " | ".join(map(str, cells)) + " |\n"
    text += f"""
| rule | leave-one-out error |
| --- | --- |
| {rule.fixed:.0f} MiB + {rule.slope * (1 << 20):,.0f} bytes a resident thread | {worst(rule.errors)} |
| {by_multiprocessors.fixed:.0f} MiB + {by_multiprocessors.slope:.2f} MiB a multiprocessor | {worst(by_multiprocessors.errors)} |

Bands: a single figure is {low:.2f} to {high:.2f} times the median of its row, and {rule.low:.2f} to {rule.high:.2f} times what the rule predicts.

"""
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    all_chips = chips()
    rule = Rule(all_chips, lambda chip: chip.threads)
    by_multiprocessors = Rule(all_chips, lambda chip: chip.multiprocessors)
    found, low, high = bands(all_chips)
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    written = {
        TABLE: table(all_chips, rule, found),
        PAGE: before + BEGIN + page(all_chips, rule, by_multiprocessors, found, low, high) + END + after,
    }
    for path, text in written.items():
        if check and (not path.exists() or path.read_text() != text):
            sys.exit(f"{path.relative_to(ROOT)} differs from what the figures give: run {Path(__file__).name}")
        if not check:
            path.write_text(text)


if __name__ == "__main__":
    main()
