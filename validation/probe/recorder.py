"""Records the allocator's events between marks, as ["+", bytes, id] and ["-", id]."""

import torch


def storage_address(tensor):
    return tensor.untyped_storage().data_ptr()


class Recorder:
    """Ids are numbers in the order of allocation; tensors that were there before go by the names given to `start`."""

    def __init__(self, device):
        self.active = device == "cuda"

    def start(self, known=None):
        self.marks = []
        self.labels = []
        self.known = dict(known or {})
        if self.active:
            torch.cuda.memory._record_memory_history(
                "all", context=None, stacks="python", max_entries=200_000, clear_history=True
            )

    def mark(self, name):
        """Ends the part of this name; adds a `snapshot` entry to the allocator's trace, allocates nothing."""
        self.marks.append(name)
        if self.active:
            torch.cuda.memory.memory_snapshot(include_traces=False)

    def label(self, name, tensor):
        """Names the storage of a tensor that is alive at the last mark."""
        if tensor is not None and tensor.numel():
            self.labels.append((len(self.marks) - 1, storage_address(tensor), name))

    def finish(self):
        """The events of each part, and `labels`: names by id."""
        if not self.active:
            return {name: [] for name in self.marks}
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        return number(entries, self.marks, self.known, self.labels)


def number(entries, marks, known, labels=()):
    """An address is used again and again: a label counts for what is there at its mark."""
    live, parts, events, names, next_id = dict(known), {}, [], {}, 0
    for entry in entries:
        action = entry["action"]
        if action == "alloc":
            live[entry["addr"]] = next_id
            events.append(["+", entry["size"], next_id])
            next_id += 1
        elif action == "free_completed":
            events.append(["-", live.pop(entry["addr"], f"unknown {entry['size']}")])
        elif action == "snapshot":
            if len(parts) == len(marks):
                raise RuntimeError("more snapshot entries than marks")
            for position, address, name in labels:
                if position == len(parts):
                    names.setdefault(str(live.get(address, "unknown")), []).append(name)
            parts[marks[len(parts)]] = events
            events = []
    if len(parts) < len(marks):
        raise RuntimeError(f"{len(marks)} marks but {len(parts)} snapshot entries")
    return {**parts, "labels": {identity: " ".join(found) for identity, found in names.items()}}
