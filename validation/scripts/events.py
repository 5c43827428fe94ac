"""Compares the allocator's history of a script on the GPU with the simulated one, request by request.

    python3 events.py TRACES RECORDINGS --binary vramfit [--only PART …] [--show N]

TRACES is what `measure.py --trace` wrote, RECORDINGS what `compare.py --recordings` wrote. For each script in both: how many requests
each side has, how many agree, and with `--show N` the first N places where they do not, with the script's lines.
"""

import argparse
import difflib
import lzma
import pathlib
import pickle
import subprocess
import sys
import tempfile

ROUNDING = 512
# Sequences are compared in windows of so many requests, since the matcher's time grows with the square.
WINDOW = 4000


def load(path):
    """The requests of a snapshot: allocation or free, rounded size, the event itself, up to the last allocation."""
    with lzma.open(path) if path.suffix == ".xz" else open(path, "rb") as file:
        events = pickle.load(file)["device_traces"][0]
    kinds = {"alloc": "+", "free_completed": "-"}
    requests = [(kinds[event["action"]], -(-event["size"] // ROUNDING) * ROUNDING, event) for event in events if event["action"] in kinds]
    # What is freed when the script has ended is not compared.
    while requests and requests[-1][0] == "-":
        requests.pop()
    return requests


def line(event):
    """The script's own line, or the innermost one."""
    frames = event.get("frames", [])
    own = [frame for frame in frames if not any(part in frame["filename"] for part in ("site-packages", "dist-packages", "/lib/python"))]
    for frame in own or frames:
        return f"{frame['filename'].rpartition('/')[2]}:{frame['line']}"
    return "backward"


def differences(measured, simulated):
    """The places where the sequences differ, as pairs of lists."""
    found, at, other = [], 0, 0
    left, right = ([(kind, size) for kind, size, _ in side] for side in (measured, simulated))
    while at < len(left) or other < len(right):
        if left[at : at + 1] == right[other : other + 1]:
            at, other = at + 1, other + 1
            continue
        matcher = difflib.SequenceMatcher(None, left[at : at + WINDOW], right[other : other + WINDOW], autojunk=False)
        for tag, first, last, begin, end in matcher.get_opcodes():
            if tag != "equal":
                found.append((measured[at + first : at + last], simulated[other + begin : other + end]))
        at, other = at + WINDOW, other + WINDOW
    return found


def shown(requests):
    return ", ".join(f"{kind}{size} {line(event)}" for kind, size, event in requests[:4]) + (" …" if len(requests) > 4 else "") or "nothing"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", type=pathlib.Path)
    parser.add_argument("recordings", type=pathlib.Path)
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the vramfit program")
    parser.add_argument("--cudnn", help="the cuDNN to ask, as `vramfit run --cudnn` has it")
    parser.add_argument("--only", nargs="*", default=(), help="parts of the names of the scripts to compare")
    parser.add_argument("--show", type=int, default=0, help="how many differences to show (0)")
    options = parser.parse_args()
    agreeing = count = 0
    cudnn = ["--cudnn", options.cudnn] if options.cudnn else []
    for trace in sorted(options.traces.glob("*.pickle.xz")):
        name = trace.name.removesuffix(".pickle.xz")
        recording = options.recordings / f"{name}.vramfit"
        if not recording.is_file() or (options.only and not any(part.replace("/", "+") in name for part in options.only)):
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "simulated.pickle"
            done = subprocess.run([options.binary, "run", "--recording", recording, "--gpu", "H200", "--snapshot", path, "--json", *cudnn], capture_output=True)
            if not path.is_file():
                print(f"{name}: no simulated run: {done.stderr.decode(errors='replace')[:200]}")
                continue
            measured, simulated = load(trace), load(path)
        found = differences(measured, simulated)
        count, agreeing = count + 1, agreeing + (not found)
        print(f"{name}: {len(measured)} requests measured, {len(simulated)} simulated, {len(found)} differences", flush=True)
        for real, other in found[: options.show]:
            print(f"    measured {shown(real)}; simulated {shown(other)}")
    if not count:
        sys.exit("found no script with both a trace and a recording")
    print(f"{agreeing} of {count} scripts agree in every request")


if __name__ == "__main__":
    main()
