"""Tests `vramfit top` and `vramfit gpus -i` in real terminals, through tmux: output, keys, the terminal's state afterwards.

    python3 tests/monitor/terminal.py VRAMFIT [PART…]
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import standin
from tmux import Terminal, check


def process_of(terminal):
    shell = terminal.do("display-message", "-p", "#{pane_pid}").strip()
    return int(subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout.split()[0])


def sizes(vramfit, environment, scenario):
    for width, height in [(20, 5), (20, 4), (24, 3), (36, 8), (40, 12), (60, 15), (80, 24), (200, 50)]:
        with Terminal(environment, width, height) as terminal:
            terminal.run(f"{vramfit} top --demo")
            shown = terminal.until(r"\[0\].*\d+ %" if height < 14 else r"gpu \d+ %|\d+ % ")
            check("mem" in shown or "MiB" in shown, f"{width}×{height} shows no memory", terminal)
            terminal.keys("?")
            time.sleep(0.3)
            terminal.keys("?", "q")
            terminal.until(r">\s*\Z")
    with Terminal(environment, 100, 30) as terminal:
        terminal.run(f"{vramfit} top --demo")
        terminal.until(r"COMMAND")
        for width, height in [(20, 5), (150, 45), (10, 2), (80, 24)]:
            terminal.do("resize-window", "-x", str(width), "-y", str(height))
            terminal.until("too small" if width < 20 else r"\[0\]")
        terminal.until("COMMAND")


def restored(vramfit, environment, scenario):
    for way in ("q", "C-c", signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        with Terminal(environment) as terminal:
            before = terminal.settings(), terminal.state()
            terminal.run(f"{vramfit} top --demo")
            terminal.until("COMMAND")
            check(terminal.state().startswith("1 1 0"), "the screen was not taken", terminal)
            if isinstance(way, str):
                terminal.keys(way)
            else:
                os.kill(process_of(terminal), way)
            terminal.until("COMMAND", is_there=False)
            status = terminal.status()
            check(status == 0, f"{way!r} ends it with {status}", terminal)
            check((terminal.settings(), terminal.state()) == before, f"{way!r} leaves the terminal changed", terminal)
    with Terminal(environment) as terminal:
        before = terminal.settings(), terminal.state()
        terminal.run(f"{vramfit} top --demo")
        terminal.until("COMMAND")
        for stop in ("C-z", signal.SIGTSTP, signal.SIGSTOP):
            process = process_of(terminal)
            if isinstance(stop, str):
                terminal.keys(stop)
            else:
                os.kill(process, stop)
            time.sleep(0.5)
            if stop == signal.SIGSTOP:
                terminal.run("clear")  # Nobody could tell it to give the terminal back.
            else:
                terminal.until("Stopped")
                check((terminal.settings(), terminal.state()) == before, f"{stop!r} leaves the terminal changed", terminal)
            terminal.run("fg")
            terminal.until("COMMAND")
            terminal.keys("?")
            terminal.until("this help")
            terminal.keys("?")
            terminal.until("this help", is_there=False)
        # Stopped, sent to the background and ended there it must not wait for the terminal for ever.
        process = process_of(terminal)
        terminal.keys("C-z")
        terminal.until("Stopped")
        terminal.run("bg")
        time.sleep(1)
        os.kill(process, signal.SIGTERM)
        terminal.run("wait")
        terminal.run("clear; jobs; echo no more jobs")
        terminal.until("^no more jobs")
        check((terminal.settings(), terminal.state()) == before, "the background changes the terminal", terminal)


def refused(vramfit, environment, scenario):
    with Terminal(environment) as terminal:
        terminal.run(f"clear; TERM=dumb {vramfit} top --demo")
        terminal.until("TERM is \"dumb\"")
        check(terminal.status() == 2, "a dumb terminal is taken", terminal)
        # In a script timeout has a group of processes of its own, which the terminal does not belong to.
        terminal.run(f"clear; bash -c 'timeout 20 {vramfit} top --demo; exit $?'")
        terminal.until("with `timeout --foreground`")
        check(terminal.status() == 2, "timeout's background is taken for a terminal", terminal)
        terminal.run(f"clear; {vramfit} top --demo & wait %1")
        terminal.until("in the background")
        terminal.run(f"clear; timeout --foreground 2 {vramfit} top --demo")
        terminal.until("COMMAND")
        terminal.until("COMMAND", is_there=False)
        check(terminal.status() == 124, "timeout --foreground", terminal)
        terminal.run(f"clear; TERM=dumb {vramfit} gpus --demo -i 0.5 --no-header")
        terminal.until(r"(?s)(\[0\].*){3}")
        check(terminal.state().startswith("0") and "[K" not in terminal.screen("-e"), "a dumb terminal gets escapes", terminal)
        terminal.keys("C-c")
    for way in ("C-c", "C-\\", signal.SIGTERM):
        with Terminal(environment) as terminal:
            before = terminal.settings(), terminal.state()
            terminal.run(f"clear; {vramfit} gpus --demo -i 0.5")
            terminal.until(r"\[3\]")
            check(terminal.state().startswith("1"), "gpus -i does not take the other screen", terminal)
            terminal.keys(way) if isinstance(way, str) else os.kill(process_of(terminal), way)
            terminal.until(r"\[3\]", is_there=False)
            check(terminal.status() == 0 and (terminal.settings(), terminal.state()) == before, f"gpus -i after {way!r}", terminal)
    with Terminal(environment) as terminal:
        before = terminal.state()
        terminal.run(f"clear; {vramfit} gpus --demo -i 0.2")
        for _ in range(2):
            terminal.until(r"\[3\]")
            terminal.keys("C-z")
            terminal.until("Stopped")
            check(terminal.state() == before, "gpus -i stopped", terminal)
            terminal.run("clear; bg")
            time.sleep(1)
            check(terminal.state() == before and "[3]" not in terminal.screen(), "gpus -i in the background", terminal)
            terminal.run("clear; fg")


def colors(vramfit, environment, scenario):
    colored = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;5;\d+)m")
    for command, expected in [
        (f"{vramfit} top --demo", True), (f"NO_COLOR=1 {vramfit} top --demo", False), (f"{vramfit} top --demo --no-color", False),
        (f"{vramfit} top --demo --color=never", False), (f"NO_COLOR=1 {vramfit} top --demo --color=always", True), (f"TERM=vt100 {vramfit} top --demo", False),
        (f"{vramfit} gpus --demo", True), (f"NO_COLOR=1 {vramfit} gpus --demo", False), (f"NO_COLOR= {vramfit} gpus --demo", True),
        (f"{vramfit} gpus --demo --no-color", False), (f"NO_COLOR=1 {vramfit} gpus --demo --color", True),
    ]:
        with Terminal(environment) as terminal:
            terminal.run(f"clear; {command}")
            terminal.until(r"\[3\]")
            check(bool(colored.search(terminal.screen("-e"))) == expected, f"{command}: colours {'missing' if expected else 'shown'}", terminal)


def signals(vramfit, environment, scenario):
    victim = subprocess.Popen(["sleep", "900"])
    gpus = [standin.gpu(0, [])]
    gpus[0]["compute"] = [dict(pid=victim.pid, memory=300 * standin.MIB, utilization=5)]
    standin.write(scenario, dict(driver_version="570.86.15", gpus=gpus))
    for width, height in [(80, 24), (20, 5)]:
        with Terminal(environment, width, height) as terminal:
            terminal.run(f"{vramfit} top")
            terminal.until(str(victim.pid))
            for no in ("n", "Enter", "Escape", "q", "Y"):
                terminal.keys("k")
                terminal.until("y sends")
                terminal.keys(no)
                terminal.until("y sends", is_there=False)
            time.sleep(0.3)
            check(victim.poll() is None, "it was killed without a yes", terminal)
    if os.getuid() == 0 and shutil.which("setpriv"):
        foreign(vramfit, environment, scenario, victim)
    with Terminal(environment) as terminal:
        terminal.run(f"{vramfit} top --readonly")
        terminal.until(str(victim.pid))
        terminal.keys("K")
        terminal.until("--readonly: no signals")
        terminal.keys("y")
        time.sleep(0.3)
        check(victim.poll() is None, "--readonly kills", terminal)
    with Terminal(environment) as terminal:
        terminal.run(f"{vramfit} top")
        terminal.until(str(victim.pid))
        terminal.keys("k")
        shown = terminal.until("Send TERM to process")
        check(str(victim.pid) in shown and "sleep 900" in shown, "the question does not say whom", terminal)
        terminal.keys("y")
        terminal.until("TERM sent to process")
    assert victim.wait(10) == -signal.SIGTERM
    with Terminal(environment) as terminal:
        terminal.run(f"{vramfit} top --demo")
        terminal.until("COMMAND")
        terminal.keys("K")
        terminal.until("a recording has no processes")


def foreign(vramfit, environment, scenario, victim):
    """Another user, who may read the machine but not end this process."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        for file in (shlex.split(vramfit)[0], f"{environment['LD_LIBRARY_PATH']}/libnvidia-ml.so.1", scenario):
            shutil.copy(file, place)
        os.chmod(f"{place}/{scenario.name}", 0o644)
        program = f"{place}/{pathlib.Path(shlex.split(vramfit)[0]).name}"
        theirs = dict(environment, LD_LIBRARY_PATH=place, NVML_STANDIN_SCENARIO=f"{place}/{scenario.name}")
        with Terminal(theirs) as terminal:
            terminal.run(f"setpriv --reuid=65534 --clear-groups {program} top")
            terminal.until(str(victim.pid))
            terminal.keys("K")
            terminal.until("Send KILL to process")
            terminal.keys("y")
            terminal.until("another user's: no permission")
            check(victim.poll() is None, "it was killed without the right to", terminal)


def faults(vramfit, environment, scenario):
    machine = dict(driver_version="570.86.15", gpus=[standin.gpu(index, []) for index in range(16)])
    standin.write(scenario, machine)
    with Terminal(environment) as terminal:
        terminal.run(f"{vramfit} top -i 0.2")
        shown = terminal.until(r"\[15\]|GPUs more")
        check(shown.count("MiB") >= 9, "16 GPUs on 24 lines", terminal)
        terminal.keys(*["]"] * 16)
        terminal.until(r"\[15\]")
        machine["faults"] = [dict(function="nvmlDeviceGetHandleByIndex", gpu=15, code=15)]
        standin.write(scenario, machine)
        terminal.until(r"\[15\].*GPU is lost")
        machine["faults"] = [dict(function="nvmlDeviceGetPowerUsage", gpu=0, seconds=60)]
        standin.write(scenario, machine)
        terminal.until("1 call hangs")
        start = time.monotonic()
        terminal.keys("?")
        terminal.until("this help")
        check(time.monotonic() - start < 3, "a hanging call hangs the screen", terminal)
        terminal.keys("?", "q")
        terminal.until(r">\s*\Z")
    machine["faults"] = []
    standin.write(scenario, machine)
    with Terminal(environment, 80, 12) as terminal:
        terminal.run(f"{vramfit} gpus -i 0.2")
        shown = terminal.until("lines more")
        check(shown.splitlines()[1].startswith("[0]"), "gpus -i scrolls its beginning away", terminal)
        terminal.do("resize-window", "-x", "120", "-y", "30")
        terminal.until(r"\[15\]")


def main():
    vramfit = shlex.quote(str(pathlib.Path(sys.argv[1]).resolve()))
    with tempfile.TemporaryDirectory() as place:
        scenario = pathlib.Path(place) / "scenario.json"
        environment = standin.environment(standin.build(), scenario)
        for part in (sizes, restored, refused, colors, signals, faults):
            if not sys.argv[2:] or part.__name__ in sys.argv[2:]:
                part(vramfit, environment, scenario)
    print(f"{Terminal.count} terminals: sizes, colours, signals to processes, and each left as it was found")


main()
