"""A shell in a real terminal, through tmux: sends keys, reads the screen."""

import os
import re
import subprocess
import sys
import time

PATIENCE = 25


class Terminal:
    """A shell in a terminal of its own."""

    count = 0

    def __init__(self, environment, width=80, height=24):
        Terminal.count += 1
        self.socket = f"vramfit-{os.getpid()}-{Terminal.count}"
        environment = {key: value for key, value in environment.items() if key not in ("TMUX", "NO_COLOR", "VRAMFIT_TOKEN")}
        shell = "exec env PS1='> ' bash --norc --noprofile -i"
        subprocess.run(["tmux", "-L", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), shell], env=environment, check=True)
        self.do("set-option", "-g", "window-size", "manual")
        self.do("resize-window", "-x", str(width), "-y", str(height))
        self.until(">")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], stderr=subprocess.DEVNULL)

    def do(self, *words):
        return subprocess.run(["tmux", "-L", self.socket, *words], check=True, capture_output=True, text=True).stdout

    def keys(self, *keys):
        self.do("send-keys", *keys)

    def run(self, command):
        self.do("send-keys", "-l", command)
        self.keys("Enter")

    def screen(self, *flags):
        return self.do("capture-pane", "-p", *flags)

    def until(self, pattern, is_there=True):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if bool(re.search(pattern, self.screen())) == is_there:
                return self.screen()
            time.sleep(0.05)
        sys.exit(f"waited in vain for {pattern!r} {'to come' if is_there else 'to go'}:\n{self.screen()}")

    def state(self):
        """The other screen, the mouse, the cursor."""
        return self.do("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()

    def settings(self):
        """The line's settings, as the shell's own line editor does not change them meanwhile."""
        mark = f"S{time.monotonic_ns()}"
        self.run(f"clear; echo {mark}=$(stty -g)=")
        return re.search(mark + r"=([0-9a-f:\s]+?)=", self.until(mark + "=[0-9a-f]")).group(1).replace("\n", "")

    def status(self):
        """The last command's exit status."""
        mark = f"E{time.monotonic_ns()}"
        self.run(f"s=$?; clear; echo {mark}=$s=")
        # Typed, it stands there with a dollar sign.
        return int(re.search(mark + r"=(\d+)=", self.until(mark + r"=\d+=")).group(1))


def check(condition, what, terminal):
    if not condition:
        sys.exit(f"{what}:\n{terminal.screen()}")
