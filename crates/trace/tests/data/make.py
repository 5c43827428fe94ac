"""Writes the small snapshot files beside this script: the same snapshot in each pickle protocol, plain and gzip.

    python3 crates/trace/tests/data/make.py

They are what CPython's own pickler makes of the objects that torch 2.11 builds, with the `pool_id` that later versions
add: two GPUs, all nine actions, shared frames, a private pool, an expandable segment, settings and annotations.
"""

import gzip
import pathlib
import pickle

HERE = pathlib.Path(__file__).parent
BASE = 0x7F2A40000000
TIME = 1_760_000_000_000_000


def frame(filename, name, line):
    return {"name": name, "filename": filename, "line": line}


def make_snapshot():
    main = frame("train.py", "main", 40)
    step = frame("train.py", "step", 12)
    linear = frame("torch/nn/modules/linear.py", "forward", 125)
    native = frame("??", "at::detail::empty_cuda(at::TensorBase const&)", 0)
    stack = [native, linear, step, main]
    other_stack = [native, step, main]

    def entry(number, action, address, size, frames=None, pool=(0, 0), note="", compiled="N/A"):
        made = {
            "action": action,
            ("device_free" if action == "oom" else "addr"): address,
            "size": size,
            "stream": 0,
            "time_us": TIME + number,
            "compile_context": compiled,
            "user_metadata": note,
            "pool_id": tuple(pool),
        }
        if frames is not None:
            made["frames"] = frames
        return made

    trace = [
        entry(0, "segment_alloc", BASE, 2 << 20, list(stack)),
        entry(1, "alloc", BASE, 1000, list(stack), note="embedding"),
        entry(2, "alloc", BASE + 1024, 512, list(other_stack), compiled="Torch-Compiled Region: 0/0"),
        entry(3, "free_requested", BASE + 1024, 512, stack),
        entry(4, "free_completed", BASE + 1024, 512, stack),
        entry(5, "segment_map", BASE + (1 << 30), 20 << 20, [], pool=(0, 7), note="a", compiled="b"),
        entry(6, "segment_unmap", BASE + (1 << 30), 20 << 20),
        entry(7, "oom", 123456789, 8 << 30, list(stack)),
        entry(8, "segment_free", BASE + (2 << 30), 20 << 20),
        entry(9, "snapshot", 0, 0),
    ]
    second_trace = [entry(10, "alloc", BASE, 2048, list(other_stack))]

    def segment(device, address, total, blocks, **extra):
        made = {
            "device": device, "address": address, "total_size": total,
            "allocated_size": 0, "active_size": 0, "requested_size": 0,
            "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": stack, "blocks": blocks,
        }
        made.update(extra)
        return made

    def block(address, size, requested, state, frames):
        return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": frames}

    segments = [
        segment(0, BASE, 2 << 20, [
            block(BASE, 1024, 1000, "active_allocated", stack),
            block(BASE + 1024, 512, 512, "active_pending_free", []),
            block(BASE + 1536, (2 << 20) - 1536, 0, "inactive", []),
        ]),
        segment(
            0, BASE - (1 << 30), 20 << 20, [block(BASE - (1 << 30), 20 << 20, 20 << 20, "active_allocated", stack)],
            segment_type="large", is_expandable=True, segment_pool_id=(0, 7), stream=5,
        ),
        segment(1, BASE, 2 << 20, [block(BASE, 2 << 20, 2048, "active_allocated", other_stack)]),
    ]
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.5,
        "expandable_segments": True,
        "roundup_power2_divisions": {"1": 0, "2": 4},
    }
    annotations = [
        {"name": "ProfilerStep#1", "stage": "START", "device": 0, "time_us": TIME},
        {"name": "ProfilerStep#1", "stage": "END", "device": 0, "time_us": TIME + 9},
    ]
    return {
        "segments": segments,
        "device_traces": [trace, second_trace],
        "allocator_settings": settings,
        "external_annotations": annotations,
    }


def main():
    snapshot = make_snapshot()
    for protocol in range(2, 6):
        (HERE / f"protocol{protocol}.pickle").write_bytes(pickle.dumps(snapshot, protocol))
    (HERE / "protocol4.pickle.gz").write_bytes(gzip.compress(pickle.dumps(snapshot, 4), mtime=0))
    (HERE / "segments_only.pickle").write_bytes(pickle.dumps(snapshot["segments"], 4))


if __name__ == "__main__":
    main()
