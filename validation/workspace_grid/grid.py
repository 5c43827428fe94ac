"""Records the workspaces cuDNN takes for convolutions and recurrent layers, over many shapes, on a CUDA GPU.

    python3 grid.py --out FOLDER [--jobs 15] [--seconds 200]

Worker processes share the GPU; each takes every n-th shape of its list until the time is up. Rows are JSON lists:

* `convolution-*.jsonl`: [shape, forward, gradient of the input, gradient of the weight], each of the three
  [most bytes at once, bytes in all] beyond the result; `shape` as `Shape.row`.
* `kernels-*.jsonl`: the same, with the names of the kernels of each of the three.
* `benchmark-*.jsonl`: [shape, forward, forward again, input gradient, again, weight gradient, again], cudnn.benchmark on.
* `recurrent-*.jsonl`: [settings, weights, events of the forward pass, events of the backward pass].
* `norm-*.jsonl`: [settings, forward, backward] of batch norm on channels-last images, bytes beyond the results.
* `lists-*.jsonl`: [shape, forward, input gradient, weight gradient], each [the workspace, how many plans found no room,
  their workspaces, each size once, in the order of cuDNN's list, the one of the plan that ran], where there is room for the result
  and nothing else. Shapes for which all plans found room are left out.
* `pressure-*.jsonl`: [shape, forward, input gradient, weight gradient], each a list: the workspace, the one taken where
  PyTorch may reserve half of it, the one where it may reserve half of that, and so on.
"""

import argparse
import gzip
import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import torch
from draw import KINDS, SIDES, channels_of, geometry_of

HERE = Path(__file__).resolve().parent
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
BATCHES = (1, 2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 16, 16, 20, 24, 32, 32, 32, 33, 48, 64, 64, 64, 96, 128, 128, 256)
SCALES = (64 / 224, 96 / 224, 112 / 224, 128 / 224, 144 / 224, 160 / 224, 192 / 224, 1, 1, 1, 1, 256 / 224, 288 / 224,
          320 / 224, 384 / 224, 512 / 224)
MOST_BYTES = 1 << 30
OWN_SEGMENT, PAGE = 24 << 20, 2 << 20
DENSER = 9  # from this draw on, layers of no model are among the shapes, and other kinds are recorded


class Shape:
    """A convolution: sizes, data type, layout ("first" or "last" for where channels are)."""

    def __init__(self, dtype, layout, batch, spatial, inputs, outputs, kernel, stride, padding, dilation, groups):
        self.row = [dtype, layout, batch, list(spatial), inputs, outputs, list(kernel), list(stride), list(padding),
                    list(dilation), groups]

    @property
    def bytes(self):
        dtype, _, batch, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = self.row
        size = 4 if dtype == "fp32" else 2
        area = after = 1
        for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation):
            area, after = area * n, after * ((n + 2 * p - d * (k - 1) - 1) // s + 1)
        return size * batch * max(inputs * area, outputs * max(after, 0))

    @property
    def is_possible(self):
        _, _, _, spatial, _, _, kernel, stride, padding, dilation, _ = self.row
        return all(n + 2 * p >= d * (k - 1) + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation))

    def weight_shape(self):
        return (self.row[5], self.row[4] // self.row[10], *self.row[6])

    def tensors(self, device):
        dtype, layout, batch, spatial, inputs, outputs, *_ = self.row
        formats = {(1, "last"): torch.contiguous_format, (2, "last"): torch.channels_last, (3, "last"): torch.channels_last_3d}
        order = formats.get((len(spatial), layout), torch.contiguous_format)
        make = lambda shape: torch.zeros(shape, dtype=DTYPES[dtype], device=device).contiguous(memory_format=order)  # noqa: E731
        return make((batch, inputs, *spatial)), make(self.weight_shape()), order

    def calls(self, device):
        """The three calls, by name; the tensors are made here."""
        x, w, order = self.tensors(device)
        _, _, batch, spatial, _, outputs, kernel, stride, padding, dilation, groups = self.row
        zero = [0] * len(spatial)
        after = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)]
        g = torch.zeros((batch, outputs, *after), dtype=x.dtype, device=device).contiguous(memory_format=order)

        def backward(mask):
            return torch.ops.aten.convolution_backward(
                g, x, w, None, stride, padding, dilation, False, zero, groups, mask)

        return {
            "forward": lambda: torch.ops.aten.convolution(x, w, None, stride, padding, dilation, False, zero, groups),
            "input": lambda: backward([True, False, False]),
            "weight": lambda: backward([False, True, False]),
        }


def layers():
    with gzip.open(HERE / "layers.json.gz") as file:
        return json.load(file)


def zoo(seed):
    """Layers of common models, with batch, image size, type and layout drawn by chance."""
    draw = random.Random(seed)
    rows = layers()
    weights = [min(row[-1], 6) for row in rows]
    for spatial, inputs, outputs, kernel, stride, padding, dilation, groups, transposed, _ in draw.choices(rows, weights, k=120_000):
        if transposed:
            # cuDNN sees a transposed convolution as the gradient of one that goes the other way.
            spatial = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)]
            inputs, outputs = outputs, inputs
        scale = draw.choice(SCALES)
        if len(spatial) == 2:
            spatial = [max(1, -(-int(n * scale * 1000) // 1000)) for n in spatial]
        dtype, layout = draw.choices(
            [("fp32", "first"), ("bf16", "first"), ("fp16", "first"), ("fp32", "last"), ("bf16", "last"), ("fp16", "last")],
            [40, 22, 8, 10, 14, 6])[0]
        yield Shape(dtype, layout, draw.choice(BATCHES), spatial, inputs, outputs, kernel, stride, padding, dilation, groups)


def plain(seed):
    """Layers of no model in particular: channels near one another, odd sizes among the even ones."""
    draw = random.Random(seed)
    for _ in range(60_000):
        inputs, outputs = channels_of(draw)
        kernel, stride, padding, dilation, groups = geometry_of(draw, inputs, outputs)
        sides = [draw.choice(SIDES)] * 2 if draw.random() < 0.9 else [draw.choice(SIDES), draw.choice(SIDES)]
        dtype, layout = draw.choices(KINDS, [40, 22, 8, 8, 16, 6])[0]
        yield Shape(dtype, layout, draw.choice(BATCHES), sides, inputs, outputs, (kernel,) * 2, (stride,) * 2, (padding,) * 2,
                    (dilation,) * 2, groups)  # fmt: skip


BASES = [  # batch, side, inputs, outputs, kernel, stride, padding, dilation, groups
    (16, 56, 64, 64, 3, 1, 1, 1, 1), (16, 28, 128, 128, 3, 1, 1, 1, 1), (16, 14, 256, 256, 3, 1, 1, 1, 1),
    (16, 7, 512, 512, 3, 1, 1, 1, 1), (16, 56, 128, 128, 3, 2, 1, 1, 1), (16, 14, 512, 512, 3, 2, 1, 1, 1),
    (16, 56, 64, 256, 1, 1, 0, 1, 1), (16, 56, 256, 64, 1, 1, 0, 1, 1), (16, 7, 2048, 512, 1, 1, 0, 1, 1),
    (16, 14, 256, 1024, 1, 1, 0, 1, 1), (16, 56, 256, 512, 1, 2, 0, 1, 1), (16, 14, 1024, 2048, 1, 2, 0, 1, 1),
    (16, 160, 3, 64, 7, 2, 3, 1, 1), (16, 128, 3, 32, 3, 2, 1, 1, 1), (16, 96, 3, 64, 3, 1, 1, 1, 1),
    (8, 224, 3, 768, 16, 16, 0, 1, 1), (8, 96, 3, 96, 4, 4, 0, 1, 1), (8, 24, 96, 192, 2, 2, 0, 1, 1),
    (8, 96, 32, 32, 3, 1, 1, 1, 1), (8, 48, 64, 32, 2, 2, 0, 1, 1), (8, 32, 128, 256, 5, 1, 2, 1, 1),
    (8, 28, 512, 512, 3, 1, 2, 2, 1), (8, 28, 2048, 256, 3, 1, 12, 12, 1), (16, 28, 256, 256, 3, 1, 1, 1, 32),
    (16, 28, 96, 96, 7, 1, 3, 1, 96), (16, 56, 144, 144, 3, 1, 1, 1, 144), (16, 56, 144, 144, 3, 2, 1, 1, 144),
    (16, 28, 240, 240, 5, 1, 2, 1, 240), (16, 1, 1024, 64, 1, 1, 0, 1, 1), (16, 28, 24, 144, 1, 1, 0, 1, 1),
    (16, 28, 256, 21, 1, 1, 0, 1, 1),
]  # fmt: skip


def sweeps():
    """One size at a time around plain layers: what the workspace depends on."""
    seen = set()
    for base in BASES:
        changed = [base]
        for position, values in (
            (0, (1, 2, 3, 4, 6, 8, 12, 24, 32, 33, 48, 64, 128)),
            (1, (7, 8, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 97, 112, 128)),
            (2, (1, 3, 4, 8, 13, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)),
            (3, (1, 3, 8, 13, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)),
        ):
            if base[8] != 1 and position >= 2:
                continue
            changed += [(*base[:position], value, *base[position + 1 :]) for value in values]
        for (batch, side, inputs, outputs, kernel, stride, padding, dilation, groups), (dtype, layout) in itertools.product(
            changed, (("fp32", "first"), ("bf16", "first"), ("fp32", "last"), ("bf16", "last"))
        ):
            shape = Shape(dtype, layout, batch, (side, side), inputs, outputs, (kernel,) * 2, (stride,) * 2, (padding,) * 2, (dilation,) * 2, groups)
            if str(shape.row) not in seen:
                seen.add(str(shape.row))
                yield shape


def shapes(kind, seed=1):
    """What a kind of worker records. The sweeps belong to the first seed only."""
    if kind == "benchmark":
        found = [shape for shape in zoo(7) if shape.row[0] != "fp16"][:4000]
    else:
        found = [*(sweeps() if seed == 1 else ()), *zoo(seed), *(plain(seed) if seed >= DENSER else ())]
        random.Random(3).shuffle(found)
    seen, kept = set(), []
    for shape in found:
        if shape.is_possible and shape.bytes <= MOST_BYTES and str(shape.row) not in seen:
            seen.add(str(shape.row))
            kept.append(shape)
    if kind == "kernels":
        swept = {str(shape.row) for shape in sweeps()}
        kept.sort(key=lambda shape: str(shape.row) not in swept)
    return kept


def figures(device):
    if device == "cpu":
        return 0, 0, 0
    stats = torch.cuda.memory_stats()
    return (stats["requested_bytes.all.current"], stats["requested_bytes.all.allocated"], stats["requested_bytes.all.peak"])


def measured(call, device):
    """[most bytes at once, bytes in all] beyond the result."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = figures(device)
    result = call()
    after = figures(device)
    kept = after[0] - before[0]
    del result
    return [after[2] - before[0] - kept, after[1] - before[1] - kept]


def tidy(device):
    if device == "cuda" and torch.cuda.memory_reserved() > 3 << 30:
        torch.cuda.empty_cache()


def trouble(device):
    if device == "cpu":
        return 0
    stats = torch.cuda.memory_stats()
    return stats["num_ooms"] + stats["num_alloc_retries"]


def convolution(shape, device):
    tidy(device)
    before = trouble(device)
    row = [shape.row]
    for call in shape.calls(device).values():
        row.append(measured(call, device))
    return row if trouble(device) == before else None


def under_pressure(call, device):
    """The workspaces of a call for which there is ever less room, for as long as it and its result are segments of their own."""
    if device == "cpu":
        return [[call().numel(), 0]]
    total, taken, room = torch.cuda.get_device_properties(0).total_memory, [], None
    while len(taken) < 6:
        torch.cuda.empty_cache()
        if room is not None:
            torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / total)
        before = trouble(device)
        try:
            figure = figures(device)[1]
            workspace, both = measured(call, device)
            result = figures(device)[1] - figure - both
            taken.append([workspace, trouble(device) - before])
        except torch.OutOfMemoryError:
            taken.append(None)
            break
        if workspace < OWN_SEGMENT or result < OWN_SEGMENT:
            break
        room = -(-result // PAGE) * PAGE + -(-workspace // 2 // PAGE) * PAGE
    torch.cuda.set_per_process_memory_fraction(min(1.0, (7 << 30) / total))
    return taken


def pressure(shape, device):
    if shape.bytes < OWN_SEGMENT:
        return None
    tidy(device)
    calls = shape.calls(device)
    return [shape.row, *(under_pressure(lambda call=call: one_of(call()), device) for call in calls.values())]


def without_room(call, device):
    """The workspace of a call; those that were asked for in vain where there is room for the result only; the one that was had."""
    if device == "cpu":
        return [0, 1, [], call().numel()]
    total, workspace = torch.cuda.get_device_properties(0).total_memory, None
    workspace = measured(call, device)[0]
    size = call().untyped_storage().nbytes()
    torch.cuda.empty_cache()
    torch.empty(size, dtype=torch.uint8, device=device)
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 0.5) / total)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=10_000, clear_history=True)
    try:
        call()
    except torch.OutOfMemoryError:
        pass
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.set_per_process_memory_fraction(min(1.0, (7 << 30) / total))
    failed = [event["size"] for event in events if event["action"] == "oom"]
    last = max((number for number, event in enumerate(events) if event["action"] == "oom"), default=-1)
    had = [event["size"] for event in events[last + 1 :] if event["action"] == "alloc"] if failed else []
    return [workspace, len(failed), list(dict.fromkeys(failed)), had[0] if had else 0]


def lists(shape, device):
    if shape.bytes < OWN_SEGMENT or shape.row[-1] > 1:
        return None
    tidy(device)
    calls = shape.calls(device)
    found = [without_room(lambda call=call: one_of(call()), device) for call in calls.values()]
    return [shape.row, *found] if any(tries for _, tries, _, _ in found) else None


def one_of(result):
    """The only tensor of a result."""
    return result if torch.is_tensor(result) else next(tensor for tensor in result if tensor is not None)


def benchmark(shape, device):
    tidy(device)
    before = trouble(device)
    torch.backends.cudnn.benchmark = True
    row = [shape.row]
    for call in shape.calls(device).values():
        row += [measured(call, device), measured(call, device)]
    return row if trouble(device) == before else None


def with_kernels(several, device):
    """Rows of convolutions with the kernels' names."""
    from torch.profiler import ProfilerActivity, profile, record_function

    tidy(device)
    rows, ranges = [], {}
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    with profile(activities=activities, acc_events=False) as profiler:
        for number, shape in enumerate(several):
            row = [shape.row]
            for name, call in shape.calls(device).items():
                if device == "cuda":
                    torch.cuda.synchronize()
                with record_function(f"vf|{number}|{name}"):
                    row.append(measured(call, device))
                    if device == "cuda":
                        torch.cuda.synchronize()
            rows.append(row)
    events = profiler.events()
    kernels = []
    for event in events:
        if event.name.startswith("vf|"):
            if "CPU" in str(event.device_type):
                ranges[event.name] = (event.time_range.start, event.time_range.end)
        elif "CUDA" in str(event.device_type):
            kernels.append((event.time_range.start, event.time_range.end, event.name))
    kernels.sort()
    for number, row in enumerate(rows):
        for name in ("forward", "input", "weight"):
            start, end = ranges.get(f"vf|{number}|{name}", (0, 0))
            row.append([kernel for first, last, kernel in kernels if first >= start and last <= end])
    return rows


def norm_settings():
    """[dtype, batch, channels, side] of batch norms on channels-last images."""
    rows = [
        [dtype, batch, channels, side]
        for dtype in ("fp32", "fp16")
        for channels in (1, 3, 8, 12, 16, 20, 24, 32, 36, 40, 48, 56, 64, 72, 80, 88, 96, 112, 120, 128, 144, 160, 192, 240, 256, 320, 336, 480, 512, 960, 1024)
        for batch, side in ((1, 7), (4, 14), (16, 14), (8, 56), (32, 28), (33, 15), (64, 56), (16, 112), (128, 7), (5, 1))
    ]
    random.Random(5).shuffle(rows)
    return rows


def norm(settings, device):
    """[settings, most bytes beyond the results forward and backward, bytes in all]."""
    tidy(device)
    dtype, batch, channels, side = settings
    x = torch.zeros(batch, channels, side, side, device=device, dtype=DTYPES[dtype])
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    weight, bias = (torch.ones(channels, device=device, requires_grad=True) for _ in range(2))
    mean, variance = torch.zeros(channels, device=device), torch.ones(channels, device=device)
    made = []

    def forward():
        made.append(torch.batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5, True))
        return made[-1]

    first = measured(forward, device)
    gradient = torch.zeros_like(made[-1])
    second = measured(lambda: torch.autograd.grad(made.pop(), (x, weight, bias), gradient), device)
    return [settings, first, second]


def recurrent_sweeps():
    """One number at a time: the lengths, batches and widths at which the workspace changes its form, and projections."""
    rows = []
    for kind in ("LSTM", "GRU", "RNN_TANH"):
        for dtype in ("fp32", "bf16", "fp16"):
            plain = [kind, dtype, True, 64, 32, 256, 512, 2, False, 0, 0.0]
            for training in (True, False):
                base = [*plain[:2], training, *plain[3:]]
                for length in (1, 3, 12, 24, 40, 48, 63, 65, 72, 80, 90, 96, 97, 101, 112, 127, 129, 160, 255, 257, 300, 384, 511, 513, 600, 768, 1000):
                    rows.append([*base[:3], length, *base[4:]])
                    rows.append([*base[:3], length, *base[4:7], 1, *base[8:]])
                for hidden in (128, 129, 136, 160, 192, 193, 256, 257, 288, 384, 385, 448):
                    for both in (False, True):
                        rows.append([*base[:6], hidden, base[7], both, *base[9:]])
            for batch in (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 18, 24, 31, 48, 63, 64, 65, 72, 80, 96, 100, 127, 128, 129, 192):
                for length in (30, 50, 64, 100, 128, 256):
                    for layers in (2, 3):
                        rows.append([*plain[:3], length, batch, 300, 400, layers, *plain[8:]])
        # Persistent kernels of half precision.
        for batch in (8, 16, 33, 64, 96, 128, 136):
            for hidden in (256, 512, 640, 1024, 1152):
                for training in (True, False):
                    rows.append([kind, "fp16", training, 50, batch, 256, hidden, 1, False, 0, 0.0])
    draw = random.Random(12)
    for dtype in ("fp32", "bf16", "fp16"):
        for _ in range(80):
            hidden = draw.choice((32, 64, 100, 256, 300, 512, 1024))
            rows.append(["LSTM", dtype, draw.random() < 0.7, draw.choice((1, 7, 16, 50, 100, 300)), draw.choice((1, 4, 16, 33, 64, 128)),
                         draw.choice((16, 64, 100, 256, 512, 1024)), hidden, draw.choice((1, 1, 2, 3)), draw.random() < 0.3,
                         draw.choice((hidden // 2, hidden // 4, hidden - 1)), 0.0])  # fmt: skip
    draw.shuffle(rows)
    return rows


def recurrent_settings():
    """[kind, dtype, training, length, batch, inputs, hidden, layers, both ways, projection, dropout]."""
    draw = random.Random(11)
    rows = []
    for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"):
        for dtype in ("fp32", "bf16", "fp16"):
            for hidden in (8, 16, 19, 64, 100, 128, 200, 256, 300, 320, 512, 650, 768, 1024, 1500, 2048):
                for _ in range(8 if kind in ("LSTM", "GRU") else 2):
                    layers = draw.choice((1, 1, 2, 2, 3, 4))
                    rows.append([
                        kind, dtype, draw.random() < 0.75, draw.choice((1, 2, 7, 10, 16, 20, 32, 35, 50, 64, 77, 100, 128, 200, 256, 512)),
                        draw.choice((1, 2, 3, 4, 8, 10, 16, 20, 32, 33, 64, 128, 256)),
                        draw.choice((hidden, hidden, 1, 17, 64, 100, 128, 200, 256, 512, 1024)), hidden, layers,
                        draw.random() < 0.3, hidden // 2 if kind == "LSTM" and draw.random() < 0.08 else 0,
                        0.2 if layers > 1 and draw.random() < 0.3 else 0.0])
    draw.shuffle(rows)
    return rows


def recurrent(settings, device):
    sys.path.insert(0, str(HERE.parent / "probe"))
    sys.path.insert(0, str(HERE))
    from recorder import Recorder

    tidy(device)
    kind, dtype, training, length, batch, inputs, hidden, count, both, projection, dropout = settings
    if length * batch * max(inputs, hidden) * count > 1 << 27:
        return None
    base, extra = ("RNN", {"nonlinearity": kind[4:].lower()}) if kind.startswith("RNN") else (kind, {})
    if projection:
        extra["proj_size"] = projection
    module = getattr(torch.nn, base)(inputs, hidden, count, bidirectional=both, dropout=dropout, **extra)
    module = module.to(device=device, dtype=DTYPES[dtype]).train(training)
    x = torch.zeros(length, batch, inputs, device=device, dtype=DTYPES[dtype], requires_grad=training)
    recorder = Recorder(device)
    recorder.start()
    with torch.set_grad_enabled(training):
        output = module(x)[0]
    recorder.mark("forward")
    gradient = torch.zeros_like(output)
    recorder.mark("gradient")
    if training:
        output.backward(gradient)
    recorder.mark("backward")
    parts = recorder.finish()
    weights = sum(w.numel() for w in module.parameters())
    return [settings, weights, parts["forward"], parts["backward"]]


def worker(kind, index, count, out, seconds, device, start, limit, seed):
    if device == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (7 << 30) / total))
    begun = time.monotonic()
    recurrent_rows = recurrent_sweeps if seed >= DENSER else recurrent_settings
    items = {"recurrent": recurrent_rows, "norm": norm_settings}.get(kind, lambda: shapes(kind, seed))()
    items = items[index::count][: limit or None]
    step = 24 if kind == "kernels" else 1
    with open(out / f"{kind}-{index}.jsonl", "a") as file, open(out / f"{kind}-{index}.position", "w") as position:
        for number in range(start, len(items), step):
            if time.monotonic() - begun > seconds:
                break
            position.seek(0)
            position.write(f"{number + step:8}")
            position.flush()
            try:
                if kind == "kernels":
                    rows = with_kernels(items[number : number + step], device)
                else:
                    function = {"convolution": convolution, "benchmark": benchmark, "recurrent": recurrent, "norm": norm,
                                "pressure": pressure, "lists": lists}[kind]  # fmt: skip
                    rows = [function(items[number], device)]
            except (RuntimeError, ValueError) as error:
                print(kind, number, str(error)[:200].replace("\n", " "), file=sys.stderr, flush=True)
                if "CUDA error" in str(error) or "out of memory" in str(error):
                    os._exit(3)
                continue
            for row in rows:
                if row is not None:
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
            file.flush()


def keep_running(arguments, kind, index, count, deadline):
    """One worker after another, each from where the last one died."""
    start = 0
    while time.monotonic() < deadline - 15:
        process = subprocess.Popen(
            [sys.executable, __file__, "--out", str(arguments.out), "--worker", kind, "--index", str(index), "--count", str(count),
             "--seconds", str(deadline - time.monotonic()), "--device", arguments.device, "--start", str(start), "--limit", str(arguments.limit), "--seed", str(arguments.seed)],
            stderr=open(arguments.out / f"{kind}-{index}.log", "a"))  # fmt: skip
        yield process
        if process.returncode == 0:
            return
        position = arguments.out / f"{kind}-{index}.position"
        start = int(position.read_text() or 0) if position.exists() else start + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=int, default=0, help="items a worker, for a dry run")
    parser.add_argument("--seed", type=int, default=1, help="which draw of shapes; 1 has the sweeps and the other kinds too")
    parser.add_argument("--only", help="one kind of worker")
    parser.add_argument("--worker")
    parser.add_argument("--index", type=int)
    parser.add_argument("--count", type=int)
    parser.add_argument("--start", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if arguments.worker:
        worker(arguments.worker, arguments.index, arguments.count, arguments.out, arguments.seconds, arguments.device,
               arguments.start, arguments.limit, arguments.seed)  # fmt: skip
        return
    deadline = time.monotonic() + arguments.seconds
    others = [("kernels", 3), ("benchmark", 1), ("recurrent", 1)] if arguments.seed == 1 else [("norm", 1)]
    others = [("recurrent", 3), ("pressure", 2)] if arguments.seed >= DENSER else others
    if arguments.only:
        others = []
    plan = [(arguments.only or "convolution", max(1, arguments.jobs - sum(count for _, count in others))), *others]
    running = [keep_running(arguments, kind, index, count, deadline) for kind, count in plan for index in range(count)]
    processes = {number: next(generator) for number, generator in enumerate(running)}
    while processes:
        time.sleep(0.5)
        for number, process in list(processes.items()):
            if process.poll() is not None:
                del processes[number]
                following = next(running[number], None)
                if following is not None:
                    processes[number] = following
            elif time.monotonic() > deadline + 30:
                process.kill()
    for path in sorted(arguments.out.glob("*.position")):
        path.unlink()
    for kind, _ in plan:
        lines = [line for path in sorted(arguments.out.glob(f"{kind}-*.jsonl")) for line in path.read_text().splitlines()]
        with gzip.GzipFile(arguments.out / f"{kind}.jsonl.gz", "wb", mtime=0) as file:
            file.write(("\n".join(lines) + "\n").encode())
        for path in arguments.out.glob(f"{kind}-*.jsonl"):
            path.unlink()
        print(kind, len(lines), "rows")


if __name__ == "__main__":
    main()
