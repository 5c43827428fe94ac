"""Compares vramfit's values on a real GPU with those of nvidia-smi and PyTorch at the same moment (`moments.json`).

    python3 validation/monitor/check.py [--table]

vramfit was queried before and after nvidia-smi. A value agrees if nvidia-smi's is between the two, with a tolerance of 1 °C, 3 W
and nvidia-smi's rounding to MiB. Exits with 1 if one does not agree.
"""

import json
import pathlib
import sys

MIB = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent


def rows(text):
    head, *lines = [[word.strip() for word in line.split(",")] for line in text.strip().splitlines()]
    return [dict(zip([word.split(" [")[0] for word in head], line)) for line in lines]


def between(value, one, other, slack):
    return min(one, other) - slack <= value <= max(one, other) + slack


def main():
    problems, checked, table = [], 0, []
    for moment in json.loads((HERE / "moments.json").read_text()):
        torch, stage = moment["torch"], moment["torch"]["stage"]
        before, after = (json.loads(moment[key]["out"])["gpus"][0] for key in ("vramfit", "vramfit_again"))
        smi = rows(moment["nvidia_smi_gpu"]["out"])[0]
        same = [(key, smi[other]) for key, other in (("name", "name"), ("uuid", "uuid"))]
        for key, value in same:
            checked += 1
            if before[key] != value:
                problems.append(f"{stage}: {key}: {before[key]}, nvidia-smi has {value}")
        numbers = [("temperature.gpu", "temperature.gpu", 1, 1), ("utilization.gpu", "utilization.gpu", 1, 0), ("utilization.enc", "utilization.encoder", 1, 0), ("utilization.dec", "utilization.decoder", 1, 0), ("power.draw", "power.draw", 1, 3), ("enforced.power.limit", "enforced.power.limit", 1, 0), ("memory.used.bytes", "memory.used", MIB, 1), ("memory.total.bytes", "memory.total", MIB, 1), ("memory.free.bytes", "memory.free", MIB, 1), ("memory.reserved.bytes", "memory.reserved", MIB, 1)]
        for key, other, unit, slack in numbers:
            checked += 1
            if not between(float(smi[other]), before[key] / unit, after[key] / unit, slack):
                problems.append(f"{stage}: {key}: {before[key] / unit} and {after[key] / unit}, nvidia-smi has {smi[other]}")
        checked += 1
        if (before["fan.speed"] is None) != (smi["fan.speed"] == "[N/A]"):
            problems.append(f"{stage}: fan.speed: {before['fan.speed']}, nvidia-smi has {smi['fan.speed']}")
        apps = {int(row["pid"]): float(row["used_gpu_memory"]) for row in rows(moment["nvidia_smi_apps"]["out"])}
        for pid, used in apps.items():
            ours = [process["gpu_memory_bytes"] / MIB for gpu in (before, after) for process in gpu["processes"] if process["pid"] == pid]
            checked += 1
            if not ours or not between(used, min(ours), max(ours), 1):
                problems.append(f"{stage}: process {pid}: {ours}, nvidia-smi has {used}")
        mine = next(process for process in before["processes"] if process["pid"] == torch["pid"])
        reserved, used = torch["reserved"] / MIB, mine["gpu_memory_bytes"] / MIB
        table.append(f"| {stage} | {used:.0f} | {apps[torch['pid']]:.0f} | {reserved:.0f} | {used - reserved:.0f} |")
        checked += 1
        if not 610 <= used - reserved <= 840:
            problems.append(f"{stage}: a context of {used - reserved} MiB, outside of what is said of PyTorch's")
    if "--table" in sys.argv:
        print("| stage | vramfit, MiB | nvidia-smi, MiB | PyTorch reserved, MiB | context, MiB |\n| --- | ---: | ---: | ---: | ---: |")
        print("\n".join(table))
    print("\n".join(problems) or f"vramfit, nvidia-smi and PyTorch agree on a real GPU: {checked} values")
    sys.exit(bool(problems))


main()
