"""Removes traces of the machine from a snapshot: shortens paths in frames and drops the harness's frames.

Everything else, including the sharing of frames between stacks, stays as PyTorch made it.
"""

import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
STANDARD_LIBRARY = {
    prefix
    for name in ("stdlib", "platstdlib")
    for path in [Path(sysconfig.get_paths()[name])]
    for prefix in (f"{path}/", f"{path.resolve()}/")
}


def scrub_path(path):
    for folder in ("site-packages/", "dist-packages/"):
        if folder in path:
            return "site-packages/" + path.rpartition(folder)[2]
    if path.startswith(f"{HERE}/"):
        return path[len(f"{HERE}/") :]
    for prefix in STANDARD_LIBRARY:
        if path.startswith(prefix):
            return "python3/" + path[len(prefix) :]
    if path.startswith("/"):
        return "elsewhere/" + path.rpartition("/")[2]
    return path


def holders_of_frames(snapshot):
    for segment in snapshot["segments"]:
        yield segment
        yield from segment["blocks"]
    for trace in snapshot["device_traces"]:
        yield from trace


def drop_harness(stack):
    """Cuts what is outside the case: a stack goes from the innermost frame outwards."""
    for index in range(len(stack) - 1, -1, -1):
        if stack[index]["filename"].startswith("cases/"):
            del stack[index + 1 :]
            return


def scrub(snapshot):
    """Changes the snapshot in place. Frames and stacks are shared objects: each is changed once."""
    stacks, frames, paths = {}, {}, {}
    for holder in holders_of_frames(snapshot):
        stack = holder.get("frames")
        if stack is not None:
            stacks[id(stack)] = stack
    for stack in stacks.values():
        for frame in stack:
            frames[id(frame)] = frame
    for frame in frames.values():
        original = frame["filename"]
        if id(original) not in paths:
            paths[id(original)] = (original, scrub_path(original))
        frame["filename"] = paths[id(original)][1]
    for stack in stacks.values():
        drop_harness(stack)
