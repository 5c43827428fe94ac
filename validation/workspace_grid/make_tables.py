"""Makes the tables of crates/cudnn/data again from the recorded answers in this repository, and updates their manifest:

    python3 make_tables.py                    all tables
    python3 make_tables.py trees sample       some of them: series, capabilities, trees, volumes, recurrent, sample
    python3 make_tables.py --check            writes nothing; fails if a table would differ
    python3 make_tables.py series --answers dense-*.jsonl.gz
    python3 make_tables.py capabilities --answers capabilities-*.jsonl.gz

Everything but the series and the capabilities can be made from files in the repository. The raw answers behind these two are not in it; see
README.md for how to record them. Without `--answers`, `--check` packs a table's own numbers again, and making it is refused. The trees need numpy, rustc, 3 GB
for each of three processes, and 12 CPU minutes.
"""

import argparse
import contextlib
import importlib
import importlib.util
import io
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import table as tables

HERE = Path(__file__).resolve().parent
MEASURED = tables.ROOT / "validation" / "measured"
ON_A_GPU = {
    "workspaces.jsonl.xz": "grid.py --out FOLDER on an H200 (109,816 shapes at 230 per second: 8 GPU minutes), then gather.py FOLDER",
    "plans.jsonl.xz": "heuristic.py --out FOLDER --draw SEED on an H200 (826,595 questions at 800 to 1,500 per second: 9 to 17 GPU minutes), then "
    "gather_plans.py FOLDER:SEED",
    "plans-volumes.jsonl.xz": "heuristic.py --out FOLDER --draw 31 --volumes on an H200 (the first 200,000 of 448,928 answers in 75 s), then "
    "gather_plans.py FOLDER --target FILE",
    "plans-blind.jsonl.xz": "the same, with gather_plans.py --blind FILE",
    "plans-series.jsonl.xz": "sample_series.py FILE dense-*.jsonl.gz, from the answers of dense.py",
    "recurrent.jsonl.gz": "grid.py --out FOLDER --seed 1 --only recurrent on an H200",
    "recurrent-sweeps.jsonl.gz": "grid.py --out FOLDER --seed 9 --only recurrent on an H200",
}
RAW = {
    "series": "dense.py --out FOLDER --seconds 500 --jobs 16 on an H200, again with --done until all is answered (21,065,476 shapes at 17,000 per second: 21 GPU minutes)",
    "capabilities": "capabilities.py --out FOLDER --library SITE-PACKAGES next to any GPU, then again with --without-gpu (45 CPU minutes)",
}


@dataclass
class Made:
    """A table and how it is made."""

    file: str
    content: str
    kind: tuple | None
    recorded: str
    script: str
    inputs: list
    needs: tuple = ()
    source: tables.Source = tables.H200

    def missing(self):
        found = [f"validation/measured/{name}: record with {ON_A_GPU[name]}" for name in self.inputs if name in ON_A_GPU and not (MEASURED / name).exists()]
        found += [f"the Python package {name}" for name in self.needs if name != "rustc" and not importlib.util.find_spec(name)]
        return found + [name for name in self.needs if name == "rustc" and not shutil.which(name)]

    def command(self):
        inputs = " ".join(f"validation/measured/{name}" if name in ON_A_GPU else name for name in self.inputs)
        return f"python3 validation/workspace_grid/{self.script} {inputs}"

    def entry(self):
        inputs = [f"validation/measured/{name}" if name in ON_A_GPU else f"{name} (not in the repository)" for name in self.inputs]
        return tables.entry(self.file, self.content, self.kind, self.recorded, self.command(), inputs, self.source)


TABLES = {
    "series": Made("cudnn-series.bin", "workspaces of 34,186 layers at every batch size", tables.SERIES, "2026-11-16", "pack_series.py",
                   ["dense-*.jsonl.gz"]),
    "capabilities": Made("cudnn-capabilities.bin", "workspaces of 7,528 layers at 56 batch sizes for compute capabilities 7.5 to 12.0", tables.CAPABILITIES,
                         "2026-11-17", "pack_capabilities.py", ["capabilities-*.jsonl.gz"], source=tables.DESCRIBED),
    "trees": Made("cudnn-plans.bin", "decision trees that predict the workspaces of other layers", tables.TREES, "2026-11-16", "pack.py",
                  ["workspaces.jsonl.xz", "plans.jsonl.xz", "plans-series.jsonl.xz"], ("numpy", "rustc")),
    "volumes": Made("cudnn-volumes.bin", "decision trees for three-dimensional layers", tables.TREES, "2026-11-17", "pack_volumes.py",
                    ["plans-volumes.jsonl.xz"], ("numpy", "rustc")),
    "recurrent": Made("cudnn-recurrent.bin", "recorded recurrent layers, for a test of the formulas", tables.RECURRENT, "2026-11-15", "pack_recurrent.py",
                      ["recurrent.jsonl.gz", "recurrent-sweeps.jsonl.gz"]),
    "sample": Made("cudnn-sample.txt", "held-back shapes, for a test of the trees", None, "2026-11-15", "sample.py", ["plans-blind.jsonl.xz"]),
}  # fmt: skip


def run(made, inputs):
    """Runs the script of a table, which replaces the file in crates/cudnn/data."""
    subprocess.run([sys.executable, HERE / made.script, *map(str, inputs)], check=True)


def same_again(made, inputs):
    """Whether the script makes the file as it is; the file stays as it was."""
    path = tables.DATA / made.file
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / made.file
        shutil.copy2(path, kept)
        try:
            run(made, inputs)
            return path.read_bytes() == kept.read_bytes()
        finally:
            shutil.copy2(kept, path)


def from_raw(name, made, answers, is_check):
    """A table whose raw answers are not in the repository."""
    packer = importlib.import_module(made.script.removesuffix(".py"))
    if is_check:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            packer.check(packer.layers_of(answers)) if answers else packer.check_packing()
        return said.getvalue().strip() + ("" if answers else f"; the raw answers are missing: {RAW[name]}")
    if not answers:
        raise SystemExit(f"{name}: give the raw answers with --answers; they are not in the repository. Record them with {RAW[name]}")
    run(made, answers)
    return "made"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="series, capabilities, trees, volumes, recurrent, sample; all without any")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--answers", nargs="+", default=[], help="the raw answers of the one table that is made")
    parser.add_argument("--manifest", action="store_true", help="write the manifest for the files as they are, nothing else")
    arguments = parser.parse_args()
    if unknown := set(arguments.tables) - TABLES.keys():
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    if arguments.answers and (len(arguments.tables) != 1 or arguments.tables[0] not in RAW):
        parser.error(f"--answers goes with one of: {', '.join(RAW)}")
    wanted = {name: made for name, made in TABLES.items() if name in (arguments.tables or TABLES)}
    if missing := [f"{name}: {one}" for name, made in wanted.items() for one in made.missing() if not arguments.manifest]:
        raise SystemExit("missing:\n  " + "\n  ".join(missing))
    differing = []
    for name, made in ({} if arguments.manifest else wanted).items():
        inputs = [MEASURED / one for one in made.inputs]
        if name in RAW:
            print(f"{name}:", from_raw(name, made, arguments.answers, arguments.check), flush=True)
        elif arguments.check:
            is_same = same_again(made, inputs)
            print(f"{name}: {'the same bytes again' if is_same else 'other bytes than the file has'}", flush=True)
            differing += [] if is_same else [name]
        else:
            run(made, inputs)
    entries = {made.file: made.entry() for made in TABLES.values()}
    if not arguments.check:
        tables.write_manifest(entries)
    elif entries != tables.manifest():
        differing.append("manifest")
    if differing:
        raise SystemExit("differ: " + ", ".join(differing))


if __name__ == "__main__":
    main()
