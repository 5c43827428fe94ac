"""Asks cuDNN's own heuristic which plans it would take for a convolution, and what workspaces they need: no kernel is run.

    python3 heuristic.py --out FOLDER --draw SEED --seconds 60 [--jobs 16] [--plans 1]    shapes of draw.py
    python3 heuristic.py --out FOLDER --draw SEED --volumes --seconds 60                  its three-dimensional ones
    python3 heuristic.py --out FOLDER --draw SEED --seconds 60 --thresholds 48            batches at which its layers choose otherwise
    python3 heuristic.py --out FOLDER --shapes ROWS.jsonl.gz [--every 20]                 the shapes of a recording, and whether it agrees

Rows are [shape, forward, input gradient, weight gradient], each a list of the first `--plans` plans that can be built, in cuDNN's
order: [workspace, engine, knob, its value, knob, its value, …]. With `--without-device` the plans are made for a GPU that is not
there, from its properties (`--device FILE`, which a run on a GPU writes to FOLDER/device.json); that leaves out the engines that ask
cuBLASLt, which most pointwise layers take. The library is the one that PyTorch loads, and the descriptors are set as its Conv_v8.cpp sets them.
"""

import argparse
import collections
import ctypes
import gzip
import importlib.util
import itertools
import json
import time
from pathlib import Path

import draw
import workers
from forms import form
from shapes import Shape

CHAR, CHILD, INT64, FLOAT, BOOLEAN, DATA_TYPE, MODE, HEURISTIC, NOTE, HANDLE, KNOB = 24, 15, 3, 4, 2, 1, 7, 8, 11, 0, 9
TYPES = {"fp32": 0, "fp16": 2, "bf16": 9}
DOWN_CONVERT_INPUTS, TENSOR_CORE = 1, 0
INSTANT, FALLBACK = 0, 2
MOST_KNOBS = 16
CONVOLUTION, ENGINE, CONFIG, HEURISTICS, PLAN, KNOB_CHOICE, GRAPH, TENSOR, DEVICE = 1, 2, 3, 4, 5, 7, 15, 17, 38
# Of each pass: the operation, then the names of its attributes: alpha, beta, convolution, weight, image, result.
PASSES = ((10, 700, 701, 702, 703, 704, 705), (12, 706, 707, 708, 709, 710, 711), (11, 712, 713, 714, 715, 716, 717))

HOPPER = {
    "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
    "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
    "deviceName": "NVIDIA H200", "totalGlobalMem": 150_000_000_000,
}  # fmt: skip


class Refused(Exception):
    """cuDNN does not build this."""


def library(with_torch):
    if with_torch:
        import torch  # noqa: F401  loads cuBLASLt and the other libraries that cuDNN looks for

    found = Path(importlib.util.find_spec("nvidia").submodule_search_locations[0]) / "cudnn" / "lib" / "libcudnn.so.9"
    return ctypes.CDLL(str(found) if found.exists() else "libcudnn.so.9", mode=ctypes.RTLD_GLOBAL)


class Cudnn:
    """The few calls of cuDNN's backend that are needed, for one device."""

    def __init__(self, device):
        """For a GPU that is there, or for one with these properties."""
        self.library = library(device is None)
        self.made = []
        self.handle = ctypes.c_void_p()
        if device is None:
            self.checked(self.library.cudnnCreate(ctypes.byref(self.handle)))
            return
        self.device = self.create(DEVICE)
        text = json.dumps(device).encode()
        self.set(self.device, 2702, CHAR, ctypes.create_string_buffer(text, len(text)), len(text))
        self.finalize(self.device)
        self.made = []

    def properties(self):
        """Of the GPU that is there, as cuDNN writes them."""
        device = self.create(DEVICE)
        self.one(device, 2701, HANDLE, self.handle)
        self.finalize(device)
        room = self.get(device, 2702, CHAR, 0, None)
        text = ctypes.create_string_buffer(room)
        self.get(device, 2702, CHAR, room, text)
        self.release()
        return json.loads(text.raw.rstrip(b"\0"))

    def checked(self, status):
        if status:
            raise Refused(status)

    def create(self, kind):
        descriptor = ctypes.c_void_p()
        self.checked(self.library.cudnnBackendCreateDescriptor(kind, ctypes.byref(descriptor)))
        self.made.append(descriptor)
        return descriptor

    def set(self, descriptor, name, kind, values, count):
        self.checked(self.library.cudnnBackendSetAttribute(descriptor, name, kind, ctypes.c_int64(count), ctypes.cast(values, ctypes.c_void_p)))

    def numbers(self, descriptor, name, numbers):
        self.set(descriptor, name, INT64, (ctypes.c_int64 * len(numbers))(*numbers), len(numbers))

    def one(self, descriptor, name, kind, value):
        self.set(descriptor, name, kind, ctypes.byref(value), 1)

    def child(self, descriptor, name, value):
        self.one(descriptor, name, CHILD, value)

    def finalize(self, descriptor):
        self.checked(self.library.cudnnBackendFinalize(descriptor))

    def release(self):
        for descriptor in reversed(self.made):
            self.library.cudnnBackendDestroyDescriptor(descriptor)
        self.made = []

    def get(self, descriptor, name, kind, room, values):
        count = ctypes.c_int64()
        self.checked(self.library.cudnnBackendGetAttribute(descriptor, name, kind, ctypes.c_int64(room), ctypes.byref(count),
                                                           ctypes.cast(values, ctypes.c_void_p)))  # fmt: skip
        return count.value

    def tensor(self, sizes, strides, dtype, name):
        tensor = self.create(TENSOR)
        self.one(tensor, 901, DATA_TYPE, ctypes.c_int(TYPES[dtype]))
        self.numbers(tensor, 902, sizes)
        self.numbers(tensor, 903, strides)
        self.one(tensor, 906, INT64, ctypes.c_int64(ord(name)))
        self.one(tensor, 900, INT64, ctypes.c_int64(32))
        self.one(tensor, 907, BOOLEAN, ctypes.c_bool(False))
        self.finalize(tensor)
        return tensor

    def graph(self, row, index):
        dtype, layout, batch, spatial, inputs, outputs, kernel, stride, padding, dilation, groups = row
        last = layout == "last" and len(spatial) > 1
        after = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation)]
        if len(spatial) == 1:  # PyTorch runs one dimension as two.
            spatial, after, kernel, stride, padding, dilation = ([1, *spatial], [1, *after], [1, *kernel], [1, *stride],
                                                                 [0, *padding], [1, *dilation])  # fmt: skip
        operation, alpha, beta, described, weight, image, result = PASSES[index]
        convolution = self.create(CONVOLUTION)
        self.one(convolution, 100, DATA_TYPE, ctypes.c_int(0))
        self.one(convolution, 101, MODE, ctypes.c_int(1))
        self.one(convolution, 106, INT64, ctypes.c_int64(len(spatial)))
        for name, numbers in ((102, dilation), (103, stride), (104, padding), (105, padding)):
            self.numbers(convolution, name, numbers)
        self.finalize(convolution)
        node = self.create(operation)
        for attribute, name, sizes in ((image, "x", [batch, inputs, *spatial]), (result, "y", [batch, outputs, *after]),
                                       (weight, "w", [outputs, inputs // groups, *kernel])):  # fmt: skip
            self.child(node, attribute, self.tensor(sizes, strides(sizes, last), dtype, name))
        self.child(node, described, convolution)
        self.one(node, alpha, FLOAT, ctypes.c_float(1))
        self.one(node, beta, FLOAT, ctypes.c_float(0))
        self.finalize(node)
        graph = self.create(GRAPH)
        self.child(graph, 801, node)
        if self.handle:
            self.one(graph, 800, HANDLE, self.handle)
        self.finalize(graph)
        return graph

    def results(self, graph, mode, room):
        """Up to so many of the heuristic's answers; few are found much sooner than all."""
        heuristics = self.create(HEURISTICS)
        self.child(heuristics, 201, graph)
        self.one(heuristics, 200, HEURISTIC, ctypes.c_int(mode))
        if not self.handle:
            self.child(heuristics, 204, self.device)
        self.finalize(heuristics)
        room = room or self.get(heuristics, 202, CHILD, 0, None)
        configs = [self.create(CONFIG) for _ in range(room)]
        count = self.get(heuristics, 202, CHILD, room, (ctypes.c_void_p * room)(*(config.value for config in configs)))
        return configs[:count]

    def engine(self, config):
        """Its number and its numerical notes."""
        engine, number, notes = self.create(ENGINE), ctypes.c_int64(), (ctypes.c_int * 16)()
        self.get(config, 300, CHILD, 1, ctypes.byref(engine))
        self.get(engine, 1301, INT64, 1, ctypes.byref(number))
        return number.value, notes[: self.get(engine, 1303, NOTE, 16, notes)]

    def knobs(self, config):
        room = MOST_KNOBS
        choices = [self.create(KNOB_CHOICE) for _ in range(room)]
        count = self.get(config, 302, CHILD, room, (ctypes.c_void_p * room)(*(choice.value for choice in choices)))
        found = []
        for choice in choices[:count]:
            knob, value = ctypes.c_int(), ctypes.c_int64()
            self.get(choice, 600, KNOB, 1, ctypes.byref(knob))
            self.get(choice, 601, INT64, 1, ctypes.byref(value))
            found += [knob.value, value.value]
        return found

    def stated_workspace(self, config):
        """The workspace that an answer tells before a plan is built of it."""
        bytes = ctypes.c_int64()
        self.get(config, 303, INT64, 1, ctypes.byref(bytes))
        return bytes.value

    def plan(self, config):
        number, notes = self.engine(config)
        if DOWN_CONVERT_INPUTS in notes:
            raise Refused("PyTorch leaves it out")
        plan, bytes = self.create(PLAN), ctypes.c_int64()
        self.child(plan, 401, config)
        if self.handle:
            self.one(plan, 400, HANDLE, self.handle)
        else:
            self.child(plan, 407, self.device)
        self.finalize(plan)
        self.get(plan, 402, INT64, 1, ctypes.byref(bytes))
        assert bytes.value == self.stated_workspace(config), "a plan that needs another workspace than it states"
        return [bytes.value, number, *self.knobs(config)]

    def plans(self, row, index, most):
        """The first plans that PyTorch would try: the heuristic's, then those that cuDNN falls back on."""
        found = []
        try:
            graph = self.graph(row, index)
            for mode, room in ((INSTANT, 1), (INSTANT, 0), (FALLBACK, 0)) if most == 1 else ((INSTANT, 0), (FALLBACK, 0)):
                for config in self.results(graph, mode, room):
                    try:
                        found.append(self.plan(config))
                    except Refused:
                        continue
                    if len(found) == most:
                        return found
            return found
        except Refused:
            return found
        finally:
            self.release()


def strides(sizes, last):
    """Of a dense tensor; a size of one has the stride that PyTorch tells cuDNN."""
    order = [1, *range(len(sizes) - 1, 1, -1), 0] if last else [*range(len(sizes) - 1, 1, -1), 1, 0]
    result, so_far = [0] * len(sizes), 1
    for place in order:
        result[place] = so_far
        so_far *= sizes[place]
    return result


def rows_of(path):
    with (gzip.open if str(path).endswith(".gz") else open)(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def choices(row, answer):
    """What the workspace of the first plan of each pass is made of."""
    return [form(Shape(row), plans[0][0], index) if plans else None for index, plans in enumerate(answer)]


def thresholds(cudnn, row, most):
    """A layer at batches that are powers of two, then at those between two that choose otherwise, until they are next to one another: (shape, answer)."""
    at = lambda batch: [*row[:2], batch, *row[3:]]  # noqa: E731
    found = {}
    for batch in (2**power for power in range(11)):
        if draw.is_asked(at(batch)):
            found[batch] = [cudnn.plans(at(batch), index, 1) for index in range(3)]
    waiting = list(zip(sorted(found), sorted(found)[1:]))
    while waiting and len(found) < most:
        low, high = waiting.pop(0)
        if high - low > 1 and choices(at(low), found[low]) != choices(at(high), found[high]):
            middle = (low + high) // 2
            found[middle] = [cudnn.plans(at(middle), index, 1) for index in range(3)]
            waiting += [(low, middle), (middle, high)]
    return [(at(batch), answer) for batch, answer in sorted(found.items())]


def search(number, arguments, device, until):
    """One of several processes: thresholds of the layers that are drawn."""
    cudnn, count = Cudnn(device), 0
    with gzip.open(Path(arguments.out) / f"plans-{number}.jsonl.gz", "wt", compresslevel=4) as out:
        for row in draw.layers_of_models(arguments.draw * 1000 + number):
            for shape, answer in thresholds(cudnn, row, arguments.thresholds):
                out.write(json.dumps([shape, *answer], separators=(",", ":")) + "\n")
                count += 1
            if time.time() > until:
                break
    with open(Path(arguments.out) / f"check-{number}.json", "w") as file:
        json.dump({"count": count, "right": [[0, 0]] * 3, "wrong": []}, file)


def work(number, arguments, device, until):
    """One of several processes: every n-th shape until the time is up."""
    if arguments.thresholds:
        return search(number, arguments, device, until)
    cudnn = Cudnn(device)
    if arguments.draw is None:
        rows = rows_of(arguments.shapes)[:: arguments.every][number :: arguments.jobs]
    else:
        drawn = draw.volumes if arguments.volumes else draw.shapes
        rows = ([row] for row in drawn(arguments.draw * 1000 + number))
    right, wrong, count = collections.Counter(), [], 0
    with gzip.open(Path(arguments.out) / f"plans-{number}.jsonl.gz", "wt", compresslevel=4) as out:
        for row in rows:
            if time.time() > until or count >= arguments.most:
                break
            count += 1
            answer = [cudnn.plans(row[0], index, arguments.plans) for index in range(3)]
            out.write(json.dumps(answer if arguments.bare else [row[0], *answer], separators=(",", ":")) + "\n")
            for index, (found, said) in enumerate(zip(row[1:4], answer)):
                equal = bool(said) and found[0] == said[0][0]
                right[index, equal] += 1
                if not equal:
                    wrong.append([index, row[0], found[0], said[:1]])
    with open(Path(arguments.out) / f"check-{number}.json", "w") as file:
        json.dump({"count": count, "right": [[right[index, True], right[index, False]] for index in range(3)], "wrong": wrong}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--shapes")
    parser.add_argument("--draw", type=int)
    parser.add_argument("--volumes", action="store_true", help="draw three-dimensional layers")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--plans", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--most", type=int, default=10**9, help="shapes a process")
    parser.add_argument("--bare", action="store_true", help="rows without their shapes, which the seed says")
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--thresholds", type=int, default=0, help="up to so many batches of a layer, where the choice changes")
    parser.add_argument("--device")
    parser.add_argument("--without-device", action="store_true")
    arguments = parser.parse_args()
    device = None
    if arguments.without_device:
        device = json.loads(Path(arguments.device).read_text()) if arguments.device else HOPPER
    started = time.time()
    workers.run(work, arguments, device)
    checks = [json.loads(path.read_text()) for path in sorted(Path(arguments.out).glob("check-*.json"))]
    print(f"{sum(check['count'] for check in checks)} shapes in {time.time() - started:.1f} s")
    for index, name in enumerate(("forward", "input gradient", "weight gradient")):
        right, wrong = (sum(check["right"][index][place] for check in checks) for place in range(2))
        if right + wrong:
            print(f"{name}: {right} of {right + wrong} as recorded")
    for line in list(itertools.chain(*(check["wrong"] for check in checks)))[:20]:
        print(*line)
    if device is None:
        (Path(arguments.out) / "device.json").write_text(json.dumps(Cudnn(None).properties()))


if __name__ == "__main__":
    main()
