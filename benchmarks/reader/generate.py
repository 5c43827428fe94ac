"""Writes a synthetic CUDA memory snapshot with the same objects as torch 2.11 creates. Needs no torch.

    python3 benchmarks/reader/generate.py FILE [--events N] [--depth N]

The pickle's structure follows torch: one dict per distinct frame, shared by all stacks; one list per recorded traceback, shared
only by an allocation's event and its live block; keys, actions and states are single string objects; `compile_context` is a new
object each time; `frames` is the last key.
"""

import argparse
import pickle
import random


def fresh(text):
    """A new string object, as C++ creates one for each value."""
    return "".join(list(text))


def make_stacks(generator, sites, depth):
    """Call stacks of a training loop. They share their outer frames and many of their inner ones."""
    def frame(filename, name, line):
        return {"name": fresh(name), "filename": fresh(filename), "line": line}

    outer = [frame("/home/me/train.py", f"step_{level}", 10 + level) for level in range(depth // 4)]
    middle = [
        [
            frame(f"lib/python3/site-packages/torch/nn/modules/module_{module}.py", "_call_impl", 1000 + level)
            for level in range(depth // 2)
        ]
        for module in range(max(sites // 16, 1))
    ]
    native = [frame("??", f"at::_ops::operator_{number}::redispatch(c10::DispatchKeySet)", 0) for number in range(400)]
    stacks = []
    for site in range(sites):
        inner = [generator.choice(native) for _ in range(depth - depth // 4 - depth // 2)]
        stacks.append(inner + middle[site % len(middle)] + outer)
    return stacks


def make_snapshot(events, depth, sites=2000, seed=0):
    generator = random.Random(seed)
    stacks = make_stacks(generator, sites, depth)
    base = 0x7F2A40000000
    time_us = 1_760_000_000_000_000
    live = []
    trace = []

    def record(action, address, size, frames):
        nonlocal time_us
        time_us += generator.randrange(1, 200)
        trace.append({
            "action": action,
            "addr": address,
            "size": size,
            "stream": 0,
            "time_us": time_us,
            "compile_context": fresh("N/A"),
            "user_metadata": "",
            "frames": frames,
        })

    record("segment_alloc", base, 1 << 36, list(stacks[0]))
    site = 0
    while len(trace) < events:
        site = (site + 1) % len(stacks)
        if len(live) < 500 or generator.random() < 0.35:
            size = generator.choice([512, 2048, 98304, 4 << 20, 37 << 20]) * generator.randrange(1, 8)
            address = base + generator.randrange(1 << 25) * 512
            frames = list(stacks[site])
            live.append((address, size, frames))
            record("alloc", address, size, frames)
        else:
            address, size, _ = live.pop(generator.randrange(len(live)))
            frames = list(stacks[site])
            record("free_requested", address, size, frames)
            record("free_completed", address, size, frames)

    blocks = []
    position = base
    for _, size, frames in live:
        rounded = (size + 511) // 512 * 512
        blocks.append({
            "address": position, "size": rounded, "requested_size": size, "state": "active_allocated",
            "frames": frames,
        })
        position += rounded
    rest = base + (1 << 36) - position
    blocks.append({"address": position, "size": rest, "requested_size": 0, "state": "inactive", "frames": []})
    segment = {
        "device": 0, "address": base, "total_size": 1 << 36, "allocated_size": position - base,
        "active_size": position - base, "requested_size": sum(size for _, size, _ in live), "stream": 0,
        "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": trace[0]["frames"], "blocks": blocks,
    }
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
        "expandable_segments": False, "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False, "graph_capture_record_stream_reuse": False,
        "roundup_power2_divisions": {str(1 << power): 0 for power in range(16)},
    }
    annotations = [
        {"name": fresh(f"ProfilerStep#{step}"), "stage": fresh(stage), "device": 0, "time_us": 1_760_000_000_000_000 + step}
        for step in range(100) for stage in ("START", "END")
    ]
    return {
        "segments": [segment], "device_traces": [trace], "allocator_settings": settings,
        "external_annotations": annotations,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--events", type=int, default=220_000)
    parser.add_argument("--depth", type=int, default=60, help="frames a stack")
    options = parser.parse_args()
    snapshot = make_snapshot(options.events, options.depth)
    with open(options.file, "wb") as file:
        pickle.dump(snapshot, file)


if __name__ == "__main__":
    main()
