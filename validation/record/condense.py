"""Keeps the peaks of all runs: python condense.py results.json… > ../recordings/peaks.json

`all.py` writes results.json with every statistic of every run; you may add single runs of `record.py`. If two runs have the
same case, label and number, the one in the later file counts.
"""

import json
import sys

MACHINE = ("gpu", "total_memory", "torch", "cuda", "cudnn")


def runs_of(path):
    with open(path) as file:
        content = json.load(file)
    return content["runs"] if "runs" in content else [content]


def condense(run):
    return {
        "case": run["case"],
        "label": run["label"],
        "run": run["run"],
        "recorded": run["recorded"],
        "alloc_conf": run["alloc_conf"],
        "cap": run["cap_bytes"],
        "peak_allocated": run["peak_allocated"],
        "peak_reserved": run["peak_reserved"],
        "retries": run["stats"]["num_alloc_retries"],
        "failed_requests": [failure["requested"] for failure in run["failed_requests"]],
        "oom": bool(run["oom"]),
    }


def main():
    runs = {}
    machine = {}
    for path in sys.argv[1:]:
        for run in runs_of(path):
            machine = {key: run[key] for key in MACHINE}
            runs[run["case"], run["label"], run["run"]] = condense(run)
    json.dump({**machine, "runs": [runs[key] for key in sorted(runs)]}, sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main()
