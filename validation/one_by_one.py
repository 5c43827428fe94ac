"""Makes files one by one: one that fails must not hide the others."""

import sys
import time


def make_all(names, make):
    """Calls `make` for each name and prints the bytes it returns. Exits with 1 if one failed."""
    failures = 0
    for name in names:
        begun = time.time()
        try:
            print(f"{name}: {make(name)} bytes, {time.time() - begun:.1f} s", flush=True)
        except Exception as error:
            failures += 1
            reason = str(error).partition("\n")[0]
            print(f"{name}: {type(error).__name__}: {reason}", flush=True)
    sys.exit(1 if failures else 0)
