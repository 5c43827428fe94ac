"""Times `vramfit run` against PyTorch's MemTracker under FakeTensorMode, on one script, in one run.

    python3 benchmarks/run/memtracker.py --binary vramfit [SCRIPT] [--repetitions N]

MemTracker (torch.distributed._tools) is not made for scripts. So the script is first run as it is within both modes, which ends where it
moves the model. Then three words of it are changed, `.to("cuda")` and `.item()` to nothing and "cuda" to "cpu", and that is timed,
with a hook that says where each iteration ends. vramfit gets the script as it is; its time has the recording, and the program's answer. Both sides take turns, each time in a process of its own, and
CPU seconds beyond the imports are counted, those of child processes included.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = HERE.parent.parent / "python"


def seconds():
    """CPU seconds of this process and its children."""
    return sum(os.times()[:4])


def load_libraries():
    """Imports what the script imports, so that it is not counted."""
    import torch  # noqa: F401
    import torch.distributed._tools.mem_tracker
    import transformers

    transformers.GPT2LMHeadModel  # noqa: B018 - imports it now


def with_memtracker(script, is_changed):
    """Runs the script within both modes: its seconds and the peak that MemTracker saw, or how it ended."""
    load_libraries()
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.optim.optimizer import register_optimizer_step_post_hook

    text = script.read_text()
    if is_changed:
        text = text.replace('.to("cuda")', "").replace('"cuda"', '"cpu"').replace(".item()", "")
    begun = seconds()
    tracker = MemTracker()
    # It ends at the second iteration unless it is told where the first one ended.
    if is_changed:
        register_optimizer_step_post_hook(lambda *_: tracker.reset_mod_stats())
    try:
        with FakeTensorMode(), tracker:
            exec(compile(text, str(script), "exec"), {"__name__": "__main__"})
    except Exception as problem:
        return {"ended": f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"}
    peaks = tracker.get_tracker_snapshot("peak")
    return {"seconds": seconds() - begun, "peak": max(sum(by.values()) // 2 for by in peaks.values())}


def with_vramfit(script, binary):
    """Records the script and has the program answer: the seconds of both, and the predicted peak."""
    load_libraries()
    os.environ["VRAMFIT_BINARY"] = str(binary)
    from vramfit import file_format
    from vramfit.running.cuda import Gpu
    from vramfit.running.script import Limits, record
    from vramfit.running.writing import contents

    begun = seconds()
    recorded = record(str(script), [], Gpu("NVIDIA H200", (9, 0), 141 << 30, 132), Limits(None, False))
    path = pathlib.Path(os.environ["VRAMFIT_FOLDER"]) / "script.vramfit"
    file_format.write(str(path), contents(recorded, str(script)))
    answer = subprocess.run([binary, "run", "--recording", path, "--gpu", "H200", "--json"], capture_output=True, check=False)
    return {"seconds": seconds() - begun, "peak": json.loads(answer.stdout)["peak_allocated"]}


def in_a_process(kind, script, binary, folder):
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "VRAMFIT_FOLDER": str(folder)}
    command = [sys.executable, __file__, "--kind", kind, "--binary", binary, script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{kind}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("script", type=pathlib.Path, nargs="?", default=HERE / "gpt2.py")
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the vramfit program, a release build")
    parser.add_argument("--repetitions", type=int, default=3, help="how often each side runs (3)")
    parser.add_argument("--kind", choices=["vramfit", "as-it-is", "changed"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    binary = options.binary.resolve()
    if options.kind == "vramfit":
        print("\n" + json.dumps(with_vramfit(options.script, binary)))
        return
    if options.kind:
        print("\n" + json.dumps(with_memtracker(options.script, options.kind == "changed")))
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        times = {"vramfit": [], "changed": []}
        found = in_a_process("as-it-is", options.script, binary, folder)
        print(f"MemTracker, the script as it is: {found.get('ended', 'runs')}")
        for _ in range(options.repetitions):
            for kind, own in times.items():
                found = in_a_process(kind, options.script, binary, folder)
                if "seconds" not in found:
                    sys.exit(f"{kind}: {found}")
                own.append(found["seconds"])
                print(f"{kind}: {found['seconds']:.2f} s, peak {found['peak']:,}", flush=True)
    ours, theirs = (statistics.median(own) for own in times.values())
    print(f"vramfit run {ours:.2f} s, MemTracker {theirs:.2f} s: {theirs / ours:.2f} times as fast")


if __name__ == "__main__":
    main()
