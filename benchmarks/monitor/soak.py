"""Watches `vramfit gpus --json -i 0.1` for an hour: its memory and file descriptors must not grow.

    python3 benchmarks/monitor/soak.py BINARY [--seconds 3600] [--folder STANDIN_FOLDER --scenario FILE]

With a stand-in it runs on any machine (see tests/monitor/README.md), otherwise on this machine's GPUs. Every few seconds the last
process of the scenario is replaced, so that processes come and go. Prints a table of minutes. Exits with 1 if the last quarter's
memory is more than 1 MiB above the second quarter's, or if file descriptors or threads have grown.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time


def look(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    field = lambda name: int(status.split(f"{name}:")[1].split()[0])
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(stat[11]) + int(stat[12])
    return field("VmRSS"), len(os.listdir(f"/proc/{pid}/fd")), field("Threads"), ticks / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--folder")
    parser.add_argument("--scenario")
    options = parser.parse_args()
    environment = dict(os.environ)
    if options.folder:
        environment.update(LD_LIBRARY_PATH=options.folder, NVML_STANDIN_SCENARIO=options.scenario)
    process = subprocess.Popen([options.binary, "gpus", "--json", "-i", "0.1"], stdout=subprocess.PIPE, env=environment)
    samples = 0

    def count():
        nonlocal samples
        for line in process.stdout:
            json.loads(line)
            samples += 1

    threading.Thread(target=count, daemon=True).start()
    start = time.monotonic()
    rows, guest, changed = [], None, 0.0
    while time.monotonic() - start < options.seconds:
        time.sleep(min(5, options.seconds / 40))
        if process.poll() is not None:
            sys.exit(f"it ended with code {process.returncode}")
        rows.append((time.monotonic() - start, *look(process.pid)))
        if options.scenario and time.monotonic() - changed > 10:
            changed = time.monotonic()
            replaced, guest = guest, subprocess.Popen(["sleep", "3600"])
            scenario = json.loads(pathlib.Path(options.scenario).read_text())
            scenario["gpus"][0]["compute"] = [dict(pid=guest.pid, memory=1 << 30)]
            beside = options.scenario + ".part"
            pathlib.Path(beside).write_text(json.dumps(scenario))
            os.replace(beside, options.scenario)
            if replaced:
                replaced.terminate()
                replaced.wait()
    process.terminate()
    code = process.wait()
    if guest:
        guest.terminate()
    print(f"{options.seconds:.0f} s, {samples} samples, {rows[-1][4]:.1f} s of processor time, exit code {code}")
    print("minute  resident KiB  descriptors  threads")
    for minute in range(int(options.seconds // 60) + 1):
        within = [row for row in rows if row[0] // 60 == minute]
        if within and (minute % 5 == 0 or options.seconds < 900):
            print(f"{minute:6}  {statistics.median(row[1] for row in within):12.0f}  {max(row[2] for row in within):11}  {max(row[3] for row in within):7}")
    quarter = len(rows) // 4
    second, last = rows[quarter : 2 * quarter], rows[-quarter:]
    growth = statistics.median(row[1] for row in last) - statistics.median(row[1] for row in second)
    descriptors = max(row[2] for row in last) - max(row[2] for row in second)
    threads = max(row[3] for row in last) - max(row[3] for row in second)
    print(f"from the second quarter to the last: {growth:+.0f} KiB resident, {descriptors:+} descriptors, {threads:+} threads")
    sys.exit(growth > 1024 or descriptors > 0 or threads > 0 or code != 0)


main()
