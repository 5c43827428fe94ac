"""Records the machine that `--demo` plays: vramfit samples the NVML stand-in while its scenario changes.

    python3 tests/monitor/make_demo.py VRAMFIT_BINARY STANDIN_FOLDER crates/cli/demo/machine.jsonl.gz

Users, commands and containers are replaced afterwards: the recorded processes are sleeping processes of the user who runs this.
"""

import gzip
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SECONDS = 60
NAMES = ["NVIDIA H100 80GB HBM3"] * 2 + ["NVIDIA GeForce RTX 3090"] * 2
TOTAL = [81559, 81559, 24576, 24576]
PEOPLE = [
    ("ada", 1001, ["python", "train.py", "--model", "bert-large", "--batch", "64"], "docker:4f1c9ad2b7e0"),
    ("ada", 1001, ["python", "train.py", "--model", "bert-large", "--batch", "64"], "docker:4f1c9ad2b7e0"),
    ("grace", 1002, ["python", "-m", "torch.distributed.run", "finetune.py"], "slurm:48151"),
    ("edsger", 1003, ["/usr/bin/python3", "notebook-kernel.py"], None),
    ("barbara", 1004, ["/usr/lib/xorg/Xorg", ":0"], None),
]
TORCH = {0, 1, 2, 3}


def scenario(moment, pids):
    wave = lambda period, phase=0.0: 0.5 + 0.5 * math.sin(2 * math.pi * moment / period + phase)
    used = [52000 + 14000 * wave(8), 51000 + 14000 * wave(8, 0.4), 3000 + 19500 * min(1, moment / SECONDS), 4100]
    busy = [int(88 + 11 * wave(5)), int(86 + 12 * wave(5, 1)), int(40 + 55 * wave(13)), 0]
    lists = [
        [(pids[0], used[0] - 900)],
        [(pids[1], used[1] - 900)],
        [(pids[2], used[2] - 700), (4242, 512)],
        [(pids[3], 3400)],
    ]
    gpus = []
    for index in range(4):
        total = TOTAL[index] * MIB
        inside = int(used[index]) * MIB
        gpus.append(dict(
            name=NAMES[index], uuid=f"GPU-{index:08x}-5a1e-4c0d-9b7f-0000000000{index:02x}", temperature=38 + busy[index] // 3,
            fan=None if index < 2 else 30 + busy[index] // 3, memory=dict(total=total, used=inside, free=total - inside - 600 * MIB, reserved=600 * MIB),
            utilization=busy[index], encoder=0, decoder=0, power=(90 if index < 2 else 30) * 1000 + busy[index] * 5100 // (1 if index < 2 else 2), power_limit=(700 if index < 2 else 350) * 1000,
            compute=[dict(pid=pid, memory=int(size) * MIB, utilization=max(0, busy[index] - 2) if place == 0 else 0) for place, (pid, size) in enumerate(lists[index])],
            graphics=[dict(pid=pids[4], memory=180 * MIB)] if index == 3 else [],
        ))
    return dict(driver_version="570.86.15", gpus=gpus)


def main():
    binary, folder, target = sys.argv[1:]
    sleepers = [subprocess.Popen(["sleep", "1000"]) for _ in PEOPLE]
    pids = [sleeper.pid for sleeper in sleepers]
    with tempfile.TemporaryDirectory() as place:
        path, recording = pathlib.Path(place) / "scenario.json", pathlib.Path(place) / "recording"
        path.write_text(json.dumps(scenario(0, pids)))
        environment = dict(os.environ, LD_LIBRARY_PATH=folder, NVML_STANDIN_SCENARIO=str(path))
        command = [binary, "gpus", "--json", "-i", "1", "--record", str(recording)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        start = time.monotonic()
        while time.monotonic() - start < SECONDS:
            beside = path.with_suffix(".part")
            beside.write_text(json.dumps(scenario(time.monotonic() - start, pids)))
            beside.replace(path)
            time.sleep(0.5)
        process.terminate()
        process.wait()
        for sleeper in sleepers:
            sleeper.kill()
        lines = recording.read_text().splitlines()
    written = [lines[0]]
    for second, line in enumerate(lines[1:]):
        sample = json.loads(line)
        sample["hostname"] = "demo"
        sample["host_memory"] = {"Ok": 512 << 30}
        for gpu in sample["gpus"]:
            for entry in gpu["processes"].get("Ok", []):
                if entry["pid"] not in pids or "Ok" not in entry["host"]:
                    continue
                number = pids.index(entry["pid"])
                user, uid, arguments, container = PEOPLE[number]
                host = entry["host"]["Ok"]
                host.update(user=user, uid=uid, arguments=arguments, container=container, parent=1 if number != 1 else 31000)
                host.update(cpu_percent={"Ok": [104.0, 103.0, 320.0, 0.0, 1.0][number]}, cpu_seconds=1.0, memory=(9 - number) << 30)
                host.update(age=[9200.0, 9199.0, 3 * 86400.0, 1500.0, 12 * 86400.0][number] + second, state="R" if number < 3 else "S")
                if number in TORCH:
                    host["context"] = dict(low=CONTEXT[0] * MIB, high=CONTEXT[1] * MIB)
                entry["pid"] = 31000 + number
        written.append(json.dumps(sample, separators=(",", ":")))
    with gzip.GzipFile(target, "wb", mtime=0) as out:
        out.write(("\n".join(written) + "\n").encode())
    print(f"{len(written) - 1} samples, {os.path.getsize(target)} bytes")


CONTEXT = (610, 840)
main()
