"""Times `vramfit gpus --json` against `gpustat --json`, whole processes, on eight GPUs of the NVML stand-in, in one run.

    python3 benchmarks/monitor/compare.py [--vramfit PATH] [--gpustat PATH] [--repetitions N] [--top-seconds N]

Both take turns. Then `vramfit top` runs in a pseudo-terminal at one sample per second, and its CPU time is read after a warm-up.
Exits with 1 if vramfit is less than 20 times as fast, or if top takes 1 % of a core or more.
"""

import argparse
import fcntl
import os
import pathlib
import pty
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/monitor"))
import standin  # noqa: E402


def measure(command, environment):
    start = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def top_share(vramfit, environment, seconds):
    """The share of a core that top takes at one sample per second, after five seconds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    process = subprocess.Popen([vramfit, "top"], env=environment, stdin=theirs, stdout=theirs, start_new_session=True)
    drawn = 0

    def read():
        nonlocal drawn
        while True:
            try:
                drawn += len(os.read(ours, 65536))
            except OSError:
                return

    threading.Thread(target=read, daemon=True).start()
    time.sleep(5)
    before, start, drawn_before = processor_seconds(process.pid), time.monotonic(), drawn
    time.sleep(seconds)
    used, passed = processor_seconds(process.pid) - before, time.monotonic() - start
    os.write(ours, b"q")
    code = process.wait(timeout=10)
    if code != 0 or drawn == drawn_before:
        sys.exit(f"top ended with {code} after drawing {drawn} bytes")
    return used / passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vramfit", default=str(standin.target() / "release/vramfit"))
    parser.add_argument("--gpustat", default="gpustat")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--top-seconds", type=float, default=60)
    options = parser.parse_args()
    guests = [subprocess.Popen(["sleep", "900"]) for _ in range(3)]
    try:
        with tempfile.TemporaryDirectory() as place:
            scenario = pathlib.Path(place) / "scenario.json"
            standin.write(scenario, dict(driver_version="570.86.15", gpus=[standin.gpu(index, [guest.pid for guest in guests]) for index in range(8)]))
            environment = standin.environment(standin.build(), scenario)
            sides = {"gpustat --json": [options.gpustat, "--json"], "vramfit gpus --json": [options.vramfit, "gpus", "--json"]}
            times = {side: [] for side in sides}
            for command in sides.values():
                measure(command, environment)
            for _ in range(options.repetitions):
                for side, command in sides.items():
                    times[side].append(measure(command, environment))
            for side, values in times.items():
                print(f"{side:20}  median {statistics.median(values) * 1000:8.1f} ms   fastest {min(values) * 1000:8.1f} ms   of {len(values)}")
            factor = statistics.median(times["gpustat --json"]) / statistics.median(times["vramfit gpus --json"])
            print(f"vramfit is {factor:.0f} times as fast (needed: 20)")
            share = top_share(options.vramfit, environment, options.top_seconds)
            print(f"vramfit top, a sample a second: {share * 100:.2f} % of a core over {options.top_seconds:.0f} s (needed: under 1)")
    finally:
        for guest in guests:
            guest.kill()
    sys.exit(factor < 20 or share >= 0.01)


main()
