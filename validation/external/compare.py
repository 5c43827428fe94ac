#!/usr/bin/env python3
"""Compares vramfit's answers with runs that others measured: compare.py BINARY [--cudnn PATH] [--check]

Writes answers.json and docs/external-accuracy.md, or with --check compares with them. README.md has the protocol.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "answers.json"
DOCUMENT = HERE.parents[1] / "docs" / "external-accuracy.md"
MIB = 2**20

# The order of the document, and what a family's figure is.
FAMILIES = {
    "xMem conv nets": "reserved (NVML growth)",
    "xMem transformers": "reserved (NVML growth)",
    "LitGPT resource table": "allocated",
    "LitGPT config hub": "allocated",
    "LitGPT pretraining": "allocated",
    "Liger-Kernel eager operators": "allocated",
    "Hugging Face documentation": "reserved (NVML growth)",
    "GPUMemNet conv nets": "whole GPU (NVML)",
    "GPUMemNet transformers": "whole GPU (NVML)",
    "GPUMemNet MLPs": "whole GPU (NVML)",
}
WITH_CONVOLUTIONS = {"xMem conv nets", "GPUMemNet conv nets"}
OPERATORS = "Liger-Kernel eager operators"
# The family whose smallest figure gives the context of GPUMemNet's runs.
CONTEXT_FROM = "GPUMemNet MLPs"
# Columns of text.
LEFT = {"family", "figure", "run", "model", "GPU", "flags", "source", "verdict", "peers (median, worst)", "answers from"}


def model_toml(row, folder):
    path = Path(folder) / f"{row['id']}.toml"
    layers = "".join(f'  "{layer}",\n' for layer in row["layers"])
    path.write_text(f'input = ["batch", {row["width"]}]\nlayers = [\n{layers}]\n')
    return path


def ask(binary, row, cudnn, folder):
    """vramfit's answer to a row, reduced to what is compared."""
    model = HERE / "captures" / row["capture"] if "capture" in row else model_toml(row, folder)
    command = [binary, "estimate", str(model), *row["flags"], "--gpu", row["gpu"], "--cudnn", cudnn, "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    try:
        answer = json.loads(run.stdout)
    except ValueError:
        return {"error": run.stderr.strip().splitlines()[0] if run.stderr.strip() else f"exit code {run.returncode}"}, None
    allocated = row["figure"] == "allocated"
    span = answer["range" if allocated else "reserved_range"]
    # What the row's way of writing the step adds to what was measured.
    scaffold = row.get("scaffold", 0)
    return {
        "bytes": answer["peak_allocated" if allocated else "peak_reserved"] - scaffold,
        "range": [span["low"] - scaffold, span["high"] - scaffold],
        "verdict": answer["fit"]["verdict"],
    }, (answer.get("cudnn") or {}).get("version")


def ask_all(binary, rows, cudnn):
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = list(pool.map(lambda row: ask(binary, row, cudnn, folder), rows))
    versions = {version for _, version in answers if version}
    return {row["id"]: answer for row, (answer, _) in zip(rows, answers)}, ", ".join(sorted(map(str, versions)))


class Comparison:
    """A row beside an answer to it."""

    def __init__(self, row, answer, context):
        self.row, self.answer = row, answer
        self.added = context if row["figure"] == "device" else 0

    def ours(self):
        """`None` where vramfit refuses the row or the simulated run does not end."""
        return self.answer["bytes"] + self.added if self.answer.get("verdict", "does-not-fit") != "does-not-fit" else None

    def error(self):
        truth = self.row["bytes"]
        return None if truth is None or self.ours() is None else self.ours() / truth - 1

    def is_inside(self):
        truth = self.row["bytes"]
        if truth is None or self.ours() is None:
            return None
        low, high = (end + self.added for end in self.answer["range"])
        slack = self.row["resolution"] / 2
        return low - slack <= truth <= high + slack

    def is_verdict_right(self):
        """"too-close" warns of an out-of-memory error, so it is right for one."""
        if self.row["family"] == OPERATORS or "verdict" not in self.answer:
            return None
        return (self.answer["verdict"] == "fits") != self.row["oom"]


def percent(value, signed=True):
    return "" if value is None else f"{100 * value:{'+' if signed else ''}.2f} %"


def mib(value):
    return "out of memory" if value is None else f"{value / MIB:,.1f}"


def spread(errors):
    sizes = [abs(error) for error in errors if error is not None]
    return (percent(statistics.median(sizes), False), percent(max(sizes), False)) if sizes else ("", "")


def counted(values):
    known = [value for value in values if value is not None]
    return f"{sum(known)} of {len(known)}" if known else ""


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "|".join(" --- " if head in LEFT else " ---: " for head in heads) + "|"]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def peers(rows):
    errors = {}
    for row in rows:
        for name, estimate in row.get("peers", {}).items():
            if estimate and row["bytes"]:
                errors.setdefault(name, []).append(estimate / row["bytes"] - 1)
    return "; ".join(f"{name} {', '.join(spread(values))}" for name, values in errors.items())


def link(source):
    url = f"https://{source['repo']}"
    if "path" not in source:
        return f"[xMem]({url})"
    line = f"#L{source['line']}" if "line" in source else ""
    return f"[{source['path'].split('/')[-1]}]({url}/blob/{source['commit']}/{source['path'].replace(' ', '%20')}{line})"


def document(rows, answers):
    tables, asked = answers["tables"], answers.get("cudnn", {})
    floor = min((row for row in rows if row["family"] == CONTEXT_FROM), key=lambda row: row["bytes"])
    context = floor["bytes"] - tables[floor["id"]]["bytes"]
    summary, details = [], []
    for family, figure in FAMILIES.items():
        chosen = [row for row in rows if row["family"] == family and row is not floor]
        for name, source in (("cuDNN", asked), ("tables", tables)) if family in WITH_CONVOLUTIONS and asked else (("", tables),):
            made = [Comparison(row, source[row["id"]], context) for row in chosen]
            within = spread([one.error() for one in made])
            differences = [abs(one.ours() - one.row["bytes"]) / MIB for one in made if one.error() is not None]
            summary.append([
                family, figure, name, len(made), *within, f"{statistics.median(differences):.1f}" if differences else "",
                counted([one.is_inside() for one in made]), counted([one.is_verdict_right() for one in made]), peers(chosen),
            ])
        details += ["", f"## {family}", ""]
        is_conv = family in WITH_CONVOLUTIONS and bool(asked)
        heads = ["run", "model", "GPU", "flags", "measured", *(["ours, cuDNN", "error"] if is_conv else []),
                 "ours, tables" if is_conv else "ours", "error", "verdict", "source"]
        lines = []
        for row in chosen:
            one = Comparison(row, tables[row["id"]], context)
            answered = []
            for source in ([asked] if is_conv else []) + [tables]:
                each = Comparison(row, source[row["id"]], context)
                answered += [each.answer.get("error") or mib(each.ours()), percent(each.error())]
            lines.append([row["id"], row["model"].replace("|", "/"), row["gpu"], f"`{' '.join(row['flags'])}`", mib(row["bytes"]), *answered,
                          one.answer.get("verdict", ""), link(row["source"])])
        details += table(heads, lines)
    version = answers.get("version", "")
    head = [
        "# Runs that others measured",
        "",
        "Written by `validation/external/compare.py`; do not edit. [validation/external/README.md](../validation/external/README.md) says how the",
        "runs were chosen and what is compared. No constant is fitted to these runs. Errors are of the measured figure; sizes are in MiB.",
        "",
        f"Conv nets are answered twice: by cuDNN {version} for the GPU of the run (the runs had cuDNN 9.1 or an unknown one), and by vramfit's",
        f"built-in tables. GPUMemNet's figures have the CUDA context in them: {context / MIB:,.0f} MiB, from the smallest MLP (`{floor['id']}`), is added",
        "to our answers. The peers' figures are their authors'; xMem and DNNMem add a figure that they measured on the GPU of the run.",
        "MemTracker (PyTorch's own, two fake steps) and Accelerate (the formula of `estimate-memory`: weights, gradients and Adam's state) were run by us",
        "with torch 2.11 and transformers 5.17 (`other_estimators.py`); MemTracker counts allocated bytes, and two of the runs end it with an error.",
        "[Where the errors come from](../validation/external/README.md#where-the-errors-come-from).",
        "",
        *table(["family", "figure", "answers from", "runs", "median error", "worst", "median, MiB", "inside the range", "verdicts right",
                "peers (median, worst)"], summary),
    ]
    return "\n".join(head + details) + "\n"


def differences(old, new):
    for name in sorted(set(old) | set(new)):
        if old.get(name) != new.get(name):
            yield f"{name}: the document has {old.get(name)}, now {new.get(name)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--cudnn", metavar="PATH")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in (HERE / "runs.jsonl").read_text().splitlines()]
    old = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    binary = str(Path(options.binary).resolve())
    new = dict(old)
    new["tables"], _ = ask_all(binary, rows, "off")
    if options.cudnn:
        convolutions = [row for row in rows if row["family"] in WITH_CONVOLUTIONS]
        new["cudnn"], new["version"] = ask_all(binary, convolutions, options.cudnn)
    if options.check:
        wrong = list(differences(old["tables"], new["tables"]))
        if options.cudnn and new["version"] == old["version"]:
            wrong += differences(old["cudnn"], new["cudnn"])
        elif options.cudnn:
            print(f"cuDNN {new['version']} is not {old['version']}: its answers are not compared")
        else:
            print("no --cudnn: the answers of cuDNN are not checked")
        if document(rows, old) != DOCUMENT.read_text():
            wrong.append(f"{DOCUMENT.name} is not what answers.json gives")
        print("\n".join(wrong) if wrong else f"{len(rows)} runs: as in {DOCUMENT.name}")
        sys.exit(1 if wrong else 0)
    ANSWERS.write_text(json.dumps(new, indent=0, sort_keys=True) + "\n")
    text = document(rows, new)
    DOCUMENT.write_text(text)
    print(text.split("\n## ")[0])


if __name__ == "__main__":
    main()
