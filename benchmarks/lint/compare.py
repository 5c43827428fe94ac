"""Compares vramfit lint with other linters in one run: what each finds in the corpus, and the times.

    python3 benchmarks/lint/compare.py --peers FOLDER --tree FOLDER [--tools NAME,NAME…] [--rounds N] [--limit SECONDS]

`--peers` is the bin folder of an environment with the tools (PyPI), `--tree` a tree of Python files such as
site-packages/torch. `torchfix` and `torch-preflight` look for mistakes with PyTorch. `ruff` and `pylint` know nothing of it:
they are only timed, with their default rules and without a cache. Each tool gets the same folders, one tool after the other in each round. vramfit runs before every
other tool, so that all run on an equally busy machine. Times are medians of CPU seconds (user and system, which a busy machine
distorts least) and of wall seconds. vramfit and ruff use all cores, the others one. A tool that exceeds the limit is stopped, and its
time is a lower bound.

The corpus is split into one file per case. A case counts as found if the tool reports anything on a marked line, and as a
false positive if it reports anything in a case without a mark.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "crates" / "lint" / "corpus"

OFF = {"VF008", "VF012", "VF013"}

# They look for other things: what they report in the corpus is no measure.
GENERAL = {"ruff", "pylint"}


def split(folder):
    """Writes one file per case and returns the marked lines of each."""
    marked = {}
    for file in sorted(CORPUS.glob("*.py")):
        for number, case in enumerate(file.read_text().split("# case: ")[1:]):
            source = case.split("\n", 1)[1]
            path = pathlib.Path(folder) / f"{file.stem}_{number:02}.py"
            lines = source.split("\n")
            # Rules that are off by default do not count.
            marked[path.name] = {n for n, line in enumerate(lines, 1) if "# expect: " in line and not OFF & set(line.split("# expect: ")[1].split(", "))}
            path.write_text("\n".join(line.split("  # expect: ")[0] for line in lines))
    return marked


def run(command, limit):
    """The command's output, its wall and CPU seconds, and whether it finished in time."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        output, is_done = ran.stdout + ran.stderr, True
    except subprocess.TimeoutExpired:
        output, is_done = "", False
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return output, time.perf_counter() - start, cpu, is_done


def places(output):
    """File and line of everything of the form `file.py:12` or `file.py,line=12`."""
    found = {}
    for name, line in re.findall(r"([\w.-]+\.py)(?:[:(]|,line=)(\d+)", output):
        found.setdefault(name, set()).add(int(line))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", required=True)
    parser.add_argument("--tree", required=True)
    parser.add_argument("--tools", default="torchfix,torch-preflight", help="which peers, of torchfix, torch-preflight, ruff and pylint")
    parser.add_argument("--limit", type=float, default=3600)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--vramfit", help="the binary; built if not given")
    options = parser.parse_args()
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    if not options.vramfit:
        subprocess.run(["cargo", "build", "--release", "--quiet", "--package", "vramfit"], cwd=ROOT, check=True)
    vramfit = options.vramfit or str(target / "release" / "vramfit")
    peers = pathlib.Path(options.peers)
    known = {
        "torchfix": lambda path: [str(peers / "torchfix"), "--select=ALL", "-j", "1", path],
        "torch-preflight": lambda path: [str(peers / "torch-preflight"), "check", "-f", "github", "-j", "1", path],
        "ruff": lambda path: [str(peers / "ruff"), "check", "--isolated", "--no-cache", "--exit-zero", path],
        "pylint": lambda path: [str(peers / "pylint"), "-j", "1", "--recursive=y", "--exit-zero", path],
    }
    asked = options.tools.split(",")
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise SystemExit(f"--tools: found {', '.join(unknown)}, needed some of {', '.join(known)}")
    tools = {"vramfit lint": lambda path: [vramfit, "lint", "--no-color", path], **{name: known[name] for name in asked}}
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        marked = split(folder)
        for tool, command in tools.items():
            output, _, seconds, is_done = run(command(folder), options.limit)
            if not is_done:
                raise SystemExit(f"{tool}: not done with the corpus after {options.limit} s; raise --limit")
            found = places(output)
            right = sum(bool(lines & found.get(name, set())) for name, lines in marked.items() if lines)
            wrong = sum(bool(found.get(name)) for name, lines in marked.items() if not lines)
            counts = (None, None) if tool in GENERAL else (right, wrong)
            rows[tool] = {"found": counts[0], "accused": counts[1], "corpus": seconds, "cpu": [], "wall": [], "done": True}
            print(json.dumps({"tool": tool, **rows[tool]}), flush=True)
    own, *others = tools
    for _ in range(options.rounds):
        for tool in [turn for other in others for turn in (own, other)]:
            _, wall, cpu, is_done = run(tools[tool](options.tree), options.limit)
            row = rows[tool]
            row["cpu"].append(cpu)
            row["wall"].append(wall)
            row["done"] &= is_done
            print(json.dumps({"tool": tool, "cpu": round(cpu, 2), "wall": round(wall, 2), "done": is_done}), flush=True)
    print(table(rows, sum(map(bool, marked.values())), sum(not lines for lines in marked.values())))


def table(rows, to_find, clean):
    """The rows as Markdown, the first tool compared with each other one."""
    own = next(iter(rows.values()))
    text = "\n| tool | cases found | clean cases accused | corpus, CPU | tree, CPU | tree, wall | times the CPU | times the wall |\n"
    text += "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for tool, row in rows.items():
        cpu, wall = statistics.median(row["cpu"]), statistics.median(row["wall"])
        more = "" if row["done"] else "> "
        times = [f"{more}{value / statistics.median(own[kind]):.0f}" for kind, value in (("cpu", cpu), ("wall", wall))]
        counts = " | ".join("" if count is None else f"{count} of {all_}" for count, all_ in ((row["found"], to_find), (row["accused"], clean)))
        text += f"\n| {tool} | {counts} | {row['corpus']:.2f} s | {more}{cpu:.2f} s | {more}{wall:.1f} s | {times[0]} | {times[1]} |"
    return text


if __name__ == "__main__":
    main()
