"""What each shortcut of the simulation gains, in instructions, as a Markdown table.

    CARGO_PROFILE_BENCH_STRIP=none cargo bench -p vramfit-training --bench shortcuts --no-run
    python benchmarks/shortcuts/measure.py EXECUTABLE

EXECUTABLE is the path that cargo prints; its symbols are needed. Needs valgrind. Instructions are counted, not seconds: the numbers do not depend
on what else the machine does.
"""

import re
import subprocess
import sys

COLLECTED = re.compile(r"Collected : (\d+)")


def instructions(executable: str, workload: str, choice: str) -> int:
    """The instructions of one simulation."""
    command = ["valgrind", "--tool=callgrind", "--toggle-collect=*measured_workload*", "--callgrind-out-file=/dev/null"]
    run = subprocess.run([*command, executable, workload, choice], capture_output=True, text=True, check=True)
    found = COLLECTED.search(run.stderr)
    if found is None:
        sys.exit(f"callgrind counted nothing: {run.stderr}")
    return int(found.group(1))


def main() -> None:
    executable = sys.argv[1]
    listed = subprocess.run([executable, "list"], capture_output=True, text=True, check=True)
    workloads, choices = (line.split() for line in listed.stdout.splitlines())
    print("| workload | million instructions |", " | ".join(choices[1:]), "|")
    print("| --- |" + " ---: |" * len(choices))
    for workload in workloads:
        counts = [instructions(executable, workload, choice) for choice in choices]
        gains = [f"{1 - counts[0] / count:.0%}" for count in counts[1:]]
        print(f"| {workload} | {counts[0] / 1e6:.1f} |", " | ".join(gains), "|", flush=True)


if __name__ == "__main__":
    main()
