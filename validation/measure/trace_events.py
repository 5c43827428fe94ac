"""Records the allocator's events with Python stacks, and packs them into columns.

Marks between phases are `snapshot` entries in the allocator's own trace: a snapshot without traces adds
one entry and allocates nothing. User metadata is kept per thread, so events without it come from
autograd's thread.
"""

import torch

CODES = {
    "alloc": "a",
    "free_requested": "r",
    "free_completed": "c",
    "segment_alloc": "S",
    "segment_free": "s",
    "segment_map": "M",
    "segment_unmap": "u",
    "oom": "o",
}
STACK_DEPTH = 8
PLUMBING = (
    "torch/nn/modules/module.py",
    "torch/utils/_contextlib.py",
    "torch/_ops.py",
    "torch/_tensor.py",
    "torch/autograd/graph.py",
    "transformers/utils/generic.py",
    "transformers/utils/output_capturing.py",
    "measure/measure.py",
    "measure/fork_pool.py",
    "measure/all.py",
)


class Tracer:
    def __init__(self):
        """Before the first CUDA allocation."""
        self.marks = []
        torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=2_000_000)
        torch.cuda.memory._set_memory_metadata("main:0")

    def mark(self, name):
        self.marks.append(name)
        torch.cuda.memory.memory_snapshot(include_traces=False)
        torch.cuda.memory._set_memory_metadata(f"main:{len(self.marks)}")

    def finish(self):
        snapshot = torch.cuda.memory._snapshot()
        torch.cuda.memory._record_memory_history(None)
        return pack(snapshot["device_traces"][0], self.marks)


def short_path(path):
    for folder in ("site-packages/", "dist-packages/", "validation/"):
        if folder in path:
            return path.rpartition(folder)[2]
    return path.rpartition("/")[2]


class Table:
    """Numbers for equal values in the order of their first use."""

    def __init__(self):
        self.numbers = {}

    def number(self, value):
        return self.numbers.setdefault(value, len(self.numbers))

    def values(self):
        return list(self.numbers)


def trim(frames, table):
    """The innermost frames of models and of torch's Python, without the plumbing between modules."""
    chosen = []
    for frame in frames:
        path = short_path(frame["filename"])
        if not path.startswith(PLUMBING):
            chosen.append(table.number(f"{path}:{frame['line']} {frame['name']}"))
        if len(chosen) == STACK_DEPTH:
            break
    return tuple(chosen)


def is_printing(entry):
    """Whether Python prints a tensor there, as DeepSpeed does with all weights for a line of its log that it does not write.

    How many tensors of a few bytes that takes depends on the values, and all are freed again.
    """
    if entry["action"] not in ("alloc", "free_requested", "free_completed"):
        return False
    return any(short_path(frame["filename"]) == "torch/_tensor_str.py" for frame in entry.get("frames", ()))


def pack(entries, marks):
    """Columns, one item an event. A free that completes at once is one event, `f`. What printing takes is left out.

    Addresses are counted in units of 512 bytes from the lowest segment.
    """
    base = min((entry["addr"] for entry in entries if "addr" in entry and entry["addr"]), default=0)
    frames, stacks, notes = Table(), Table(), Table()
    actions, threads = [], []
    columns = {"sizes": [], "addresses": [], "streams": [], "stacks": [], "notes": []}
    places, phase_starts = [], {}
    for entry in entries:
        action, address = entry["action"], entry.get("addr", 0)
        if action == "snapshot":
            places.append(len(actions))
            continue
        if is_printing(entry):
            continue
        offset = (address - base) // 512 if address else None
        if action == "free_completed" and actions and actions[-1] == "r" and columns["addresses"][-1] == offset:
            actions[-1] = "f"
            continue
        note = entry.get("user_metadata", "")
        if note.startswith("main:"):
            phase_starts.setdefault(int(note.removeprefix("main:")), len(actions))
            note = "main"
        actions.append(CODES.get(action, "?"))
        threads.append("m" if note and not note.startswith("backward:") else "b")
        columns["sizes"].append(entry["size"])
        columns["addresses"].append(offset)
        columns["streams"].append(entry.get("stream", 0))
        columns["stacks"].append(stacks.number(trim(entry.get("frames", ()), frames)))
        columns["notes"].append(notes.number(note))
    packed = {
        "format": 1,
        "actions": "".join(actions),
        "threads": "".join(threads),
        "marks": list(zip(marks, places)),
        **columns,
        "frames": frames.values(),
        "stack_table": stacks.values(),
        "note_table": notes.values(),
    }
    # finish() copies the trace before its own snapshot entry is written: no entry is left over.
    if len(places) != len(marks):
        packed["problem"] = f"{len(marks)} marks but {len(places)} snapshot entries: places by the main thread's notes"
        packed["marks"] = [(name, phase_starts.get(number + 1)) for number, name in enumerate(marks)]
    if not any(columns["streams"]):
        del packed["streams"]
    if len(notes.numbers) <= 2:
        del packed["notes"], packed["note_table"]
    return packed
