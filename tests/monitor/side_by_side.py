"""Runs the real gpustat and vramfit on the same simulated machines, and compares every field.

    python3 tests/monitor/side_by_side.py VRAMFIT GPUSTAT
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import standin

#: Read at another moment than the other's; all else must be the same.
MOVING = {"query_time"}
FLAGS = ["", "-a", "-cpu", "-c", "-u", "-p", "-F", "-e", "-e enc", "-e dec", "-e enc,dec", "-P", "-P draw", "-P limit", "-P limit,draw", "--show-fan", "-cuFe", "-acf", "-f", "--no-processes", "--gpuname-width 8", "--gpuname-width 0", "--gpuname-width 40", "--id 0", "--id 5,2"]


def compare(path, ours, theirs, problems):
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            if key not in ours:
                problems.append(f"{path}.{key} is missing")
            elif key not in MOVING:
                compare(f"{path}.{key}", ours[key], value, problems)
        order = [key for key in ours if key in theirs]
        if order != list(theirs):
            problems.append(f"{path}: keys in another order: {order}")
    elif isinstance(theirs, list):
        if len(ours) != len(theirs):
            problems.append(f"{path}: {len(ours)} entries, gpustat has {len(theirs)}")
        for place, (our, their) in enumerate(zip(ours, theirs)):
            compare(f"{path}[{place}]", our, their, problems)
    elif path.endswith("cpu_percent"):
        if not isinstance(ours, float) or abs(ours - theirs) > 25:
            problems.append(f"{path}: {ours}, gpustat has {theirs}")
    elif ours != theirs or type(ours) is not type(theirs):
        problems.append(f"{path}: {ours!r}, gpustat has {theirs!r}")


def main():
    vramfit, gpustat = sys.argv[1:]
    folder = standin.build()
    processes = [subprocess.Popen(command) for command in (["sleep", "900"], [sys.executable, "-c", "import time; time.sleep(900)", "train.py", "--lr", "1e-3"], ["sleep", "901"])]
    problems, fields = [], 0
    try:
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "scenario.json"
            environment = standin.environment(folder, path)
            pids = [process.pid for process in processes]
            for count in (0, 1, 8, 16):
                gpus = [standin.gpu(index, pids) for index in range(count)]
                standin.write(path, dict(driver_version="570.86.15", gpus=gpus))
                ask = lambda program, *flags: subprocess.run([*program, *flags], env=environment, capture_output=True, text=True, check=True).stdout
                ours, theirs = json.loads(ask([vramfit, "gpus"], "--json")), json.loads(ask([gpustat], "--json"))
                compare(f"{count} GPUs: ", ours, theirs, problems)
                fields += sum(len(gpu) + sum(len(process) for process in gpu["processes"]) for gpu in theirs["gpus"])
                for flags in FLAGS if count == 8 else FLAGS[:4] if count else []:
                    for color in ("--no-color", "--force-color"):
                        words = [*flags.split(), "--no-header", color]
                        ours, theirs = ask([vramfit, "gpus"], *words), ask([gpustat], *words)
                        if ours != theirs:
                            problems.append(f"{count} GPUs, {' '.join(words)}:\n{ours}\ngpustat:\n{theirs}")
                        fields += 1
    finally:
        for process in processes:
            process.kill()
    print("\n".join(problems) or f"vramfit and gpustat agree: {fields} fields and texts")
    sys.exit(bool(problems))


main()
