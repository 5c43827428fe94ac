"""Asks `vramfit web` so many questions a second for a while, and watches its memory.

    python3 benchmarks/web/load.py [--vramfit PATH] [--rate 1000] [--seconds 60] [--warm-up 10]

The questions are estimates of five built-in models at changing batches (320 different ones), the lists, and the page. Exits with 1
if after the warm-up a question is refused, the rate is not reached, or resident memory grows: its median over the last third of
the time is more than 5 % above that over the first third.
"""

import argparse
import asyncio
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATHS = ["/api/estimate?model={model}&batch={batch}&gpu=RTX+3060"] * 7 + ["/api/models", "/api/gpus", "/"]
MODELS = ["resnet18", "vit-b-16", "bert-base", "lstm", "gpt2"]


def path(number):
    return PATHS[number % len(PATHS)].format(model=MODELS[number // 3 % len(MODELS)], batch=1 + number // 7 % 64)


def resident(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024


async def ask(port, number, results):
    begun = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path(number)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        code = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
    except OSError:
        code = 0
    results.append((begun, code, time.perf_counter() - begun))


async def load(port, pid, rate, seconds, warm_up):
    results, waiting, memory = [], set(), []
    begun = time.perf_counter()
    number = 0
    while (passed := time.perf_counter() - begun) < seconds:
        while number < passed * rate:
            task = asyncio.create_task(ask(port, number, results))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            number += 1
        if passed > warm_up and len(memory) < passed - warm_up:
            memory.append(resident(pid))
        await asyncio.sleep(0.001)
    await asyncio.gather(*waiting)
    # The server keeps estimates; until it has them it may refuse what is beyond its cores.
    warm = [(code, taken) for at, code, taken in results if at - begun > warm_up]
    early = [code for at, code, _ in results if at - begun <= warm_up]
    return early, warm, memory, time.perf_counter() - begun - warm_up


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramfit", default=str(ROOT / "target/release/vramfit"))
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=10)
    arguments = parser.parse_args()
    server = subprocess.Popen([arguments.vramfit, "web"], stderr=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r"http://[^:]+:(\d+)/", server.stderr.readline())[1])
        before = resident(server.pid)
        first, results, memory, passed = asyncio.run(
            load(port, server.pid, arguments.rate, arguments.seconds, arguments.warm_up)
        )
        after = resident(server.pid)
    finally:
        server.terminate()
        server.wait()
    good = sum(code == 200 for code, _ in results)
    others = sorted({code for code, _ in results} - {200})
    times = sorted(1000 * taken for _, taken in results)
    reached = good / passed
    third = len(memory) // 3 or 1
    early, late = statistics.median(memory[:third]), statistics.median(memory[-third:])
    mebi = [bytes_ / 2**20 for bytes_ in (before, early, late, max(memory), after)]
    print(f"warm-up: {sum(code == 200 for code in first)} of {len(first)} answered")
    print(f"{good} of {len(results)} answered in {passed:.1f} s, {reached:.0f} a second; other codes: {others or 'none'}")
    print(f"milliseconds: median {statistics.median(times):.1f}, 99 % {times[int(0.99 * len(times))]:.1f}, most {times[-1]:.1f}")
    print("MiB resident: {:.1f} at first; medians of the first and last third {:.1f} and {:.1f}; {:.1f} at most, {:.1f} at the end".format(*mebi))
    return 1 if others or reached < 0.95 * arguments.rate or late > 1.05 * early else 0


if __name__ == "__main__":
    sys.exit(main())
