"""Turns micro-benchmarks into the table that `crates/price` reads.

    python3 validation/price/make_table.py validation/price/micro.json.gz > crates/price/data/h200.txt

Only two numbers come from timed training steps: how much longer the CPU takes for an operator within a model than in a loop of
its own. In a model, caches are cold and Python does more than call the operator. The numbers are medians over the calibration
models of `runs.py`, none of which is among those on which the price is validated; `vramfit-validate price-calibration` prints
them.
"""

import argparse
import gzip
import json
import statistics
from collections import defaultdict
from pathlib import Path

HEAD = """# What was timed on an H200, one operator at a time. Made by validation/price/make_table.py; times in microseconds.
#
# kernel      name, element type, direction, then pairs of elements:time; the GPU alone
# dispatch    name, forward and backward time of the CPU for a call (gradient sinks taken off)
# axis        the sizes of the products that follow
# product     element type, which of a linear layer's products, then a time for each combination of the axes' sizes
# unaligned   how much longer a product takes where a size is odd, and where it is even and no multiple of eight
# point       name, element type, three sizes, then forward and backward time for a million operations
#             (recurrent: for each token, layer and direction)
# optimizer   name, implementation; on the CPU for a step and for each weight; on the GPU for each weight and each byte
#             (cpu: the last is the CPU's, with the copies from and to the GPU; muon: without its matrix products)
# copy        pairs of bytes:time of a copy from the host, which Python waits for
# host        pinned or pageable memory; pairs of bytes:time for a saved tensor to the host, with commas between, and back
# constant    a name and a time: what the CPU does at a certain place
"""
WIDE, NARROW = 32000, 1000
CLASSES = {"log_softmax": WIDE, "nll_loss": WIDE, "cross_entropy_wide": WIDE, "cross_entropy": NARROW}
# From `vramfit-validate price-calibration`.
FACTORS = (1.657, 1.223)
VIEWS = ("view", "reshape", "flatten", "transpose", "permute", "unsqueeze", "squeeze", "expand", "select", "slice",
         "contiguous_no_copy", "to_no_copy", "dropout_off")  # fmt: skip
DTYPES = ("float32", "bfloat16")


def number(value):
    return f"{value:.4g}"


def elements_of(row):
    classes = CLASSES.get(row["op"])
    return max(row["elements"] // classes, 1) * classes if classes else row["elements"]


def kernels(rows):
    curves = defaultdict(dict)
    for row in rows:
        for side in ("forward", "backward"):
            if row.get(side) is not None:
                curves[row["op"], row["dtype"], side][elements_of(row)] = max(row[side], 0.01)
    for key, curve in curves.items():
        # A larger size never takes less.
        pairs, least = [], 0.0
        for size in sorted(curve):
            least = max(least, curve[size])
            pairs.append(f"{size}:{number(least)}")
        yield " ".join(["kernel", *key, *pairs])


class Stacks:
    """What the CPU does within stacks of layers, which is more than in a loop over one call; see stacks.py."""

    def __init__(self, data):
        self.rows = {(row["op"], row["autocast"]): row for row in data["stacks"] if "error" not in row}
        self.loops = {row["op"]: row for row in data["dispatch"] if "forward" in row}
        self.module = self.rows["identity", False]["forward"]
        # A second product and a sink more than with a frozen weight.
        more = self.of("mul_full", side="backward") - self.of("mul_full_frozen", side="backward")
        self.sink = max(more - self.of("mul_function", side="backward"), 0.5)
        self.known = self.operators()
        ratios = [[], []]
        for name, costs in self.known.items():
            loop = self.loops.get(name)
            if not loop or name in VIEWS or not loop["backward"]:
                continue
            ratios[0].append(costs[0] / loop["forward"])
            ratios[1].append(costs[1] / self.loop_backward(loop))
        self.ratios = [statistics.median(side) for side in ratios]
        self.view_ratios = [
            self.known["view"][0] / self.loops["view"]["forward"],
            self.known["view"][1] / self.loop_backward(self.loops["view"]),
        ]

    def loop_backward(self, loop):
        """Without the sinks, which a loop over calls has measured by itself."""
        return max(loop["backward"] - self.loops_sink() * loop["leaves"], 0.3)

    def loops_sink(self):
        return self.loops["gradient_sink"]["backward"] if "gradient_sink" in self.loops else 0.0

    def of(self, name, sinks=0, side="forward", autocast=False):
        """A layer, without the module around it and the sinks of its weights."""
        row, empty = self.rows[name, autocast], self.rows["identity", False]
        if side == "forward":
            return row["forward"] - (0.0 if name.endswith("_function") else empty["forward"])
        return row["backward"] - empty["backward"] - (sinks * self.sink if sinks else 0.0)

    def both(self, name, sinks=0):
        return [max(self.of(name), 0.3), max(self.of(name, sinks, "backward"), 0.3)]

    def operators(self):
        minus = lambda one, *others: [max(one[at] - sum(other[at] for other in others), 0.3) for at in (0, 1)]  # noqa: E731
        part = lambda one, count: [value / count for value in one]  # noqa: E731
        view = part(self.both("views_function"), 4)
        found = {name: self.both(name) for name in ("gelu", "silu", "relu", "tanh", "dropout", "softmax")}
        found |= {name: self.both(name, 2) for name in ("linear", "layer_norm", "conv2d_bias", "conv_transpose2d")}
        found |= {name: self.both(name, 2) for name in ("batch_norm", "group_norm")}
        found |= {name: self.both(name, 1) for name in ("linear_no_bias", "rms_norm", "conv2d", "matmul")}
        found |= {name: self.both(name) for name in ("max_pool", "avg_pool")}
        found |= {name: self.both(f"{name}_function") for name in ("add", "neg", "pow")}
        found |= {"mul_scalar": self.both("mul_function"), "mul": self.both("mul_full", 1)}
        found |= {"mul_row": self.both("mul_weight", 1), "add_row": self.both("add_weight", 1)}
        # An addition takes no longer than a product; its forward stack was disturbed in the one run there is.
        found["add_row"][0] = min(found["add_row"][0], found["mul_row"][0])
        found |= {"to_half": part(self.both("casts_function"), 2), "to_single": part(self.both("casts_function"), 2)}
        found |= {"view": view, "reshape": view, "transpose": view, "permute": view, "flatten": view, "expand": view}
        pair = part(self.both("unsqueeze_function"), 2)
        found |= {"unsqueeze": pair, "squeeze": pair, "select": pair}
        found["contiguous"] = minus(self.both("contiguous_function"), view, view, view)
        found["attention"] = minus(self.both("attention", 2), view, view, view)
        whole = self.both("cat_function")
        found["slice"] = minus(part(whole, 2), part(view, 1))
        found["slice"] = [min(one, 2.5 * other) for one, other in zip(found["slice"], view)]
        found["cat"] = minus(whole, found["slice"], found["slice"])
        found["batch_norm_last"], found["max_pool_last"] = found["batch_norm"], found["max_pool"]
        found["addmm"] = found["linear"]
        return found

    def cost(self, name):
        if name in self.known:
            return self.known[name]
        loop = self.loops[name]
        ratios = self.view_ratios if name in VIEWS else self.ratios
        backward = self.loop_backward(loop) * ratios[1] if loop.get("backward") else 0.0
        return [loop["forward"] * ratios[0], backward]

    def lines(self):
        apart = ("checkpoint", "copy", "module", "autocast", "read", "all_", "gradient", "chain", "backward", "no_grad")
        for name in self.loops:
            if not name.startswith(apart):
                yield f"dispatch {name} {number(self.cost(name)[0])} {number(self.cost(name)[1])}"

    def constants(self):
        casts = [
            (self.of("linear", 0, side, True) - self.of("linear", 0, side, False)) / 2 for side in ("forward", "backward")
        ]
        return {
            "gradient_sink": self.sink,
            "gradient_sum": max(self.of("residual_function", 0, "backward") - self.of("add_function", 0, "backward"), 0.5),
            "autocast": max(self.of("gelu", autocast=True) - self.of("gelu"), 0.0),
            "cast": max(casts[0], 0.5),
            "cast_backward": max(casts[1], 0.5),
            "module": self.module,
        }


def products(rows):
    grids = {dtype: {} for dtype in DTYPES}
    names = ("forward", "for_input", "for_weight")
    for row in rows:
        grids[row["dtype"]][row["rows"], row["inner"], row["outer"]] = [row[name] for name in names]
    powers = [key for key in grids["float32"] if all(size & (size - 1) == 0 for size in key)]
    axes = [sorted({key[axis] for key in powers}) for axis in range(3)]
    for name, axis in zip(("rows", "inner", "outer"), axes):
        yield " ".join(["axis", name, *map(str, axis)])
    for dtype in DTYPES:
        for at, name in enumerate(names):
            times = []
            for m in axes[0]:
                for k in axes[1]:
                    for n in axes[2]:
                        times.append(number(filled(grids[dtype], axes, (m, k, n), at)))
            yield " ".join(["product", dtype, name, *times])
    for dtype in DTYPES:
        for at, name in enumerate(names):
            yield " ".join(["unaligned", dtype, name, *map(number, unaligned(grids[dtype], axes, at))])


def filled(grid, axes, key, at):
    """The time of a size; where it was too large to try, that of the nearest smaller one, in proportion."""
    factor = 1.0
    while key not in grid:
        axis = max(range(3), key=lambda axis: key[axis] / axes[axis][0])
        smaller = axes[axis][axes[axis].index(key[axis]) - 1]
        factor *= key[axis] / smaller
        key = tuple(smaller if position == axis else size for position, size in enumerate(key))
    return grid[key][at] * factor


def interpolated(grid, axes, key, at):
    import math

    cells = []
    for axis, size in zip(axes, key):
        inside = min(max(size, axis[0]), axis[-1])
        left = max(index for index in range(len(axis) - 1) if axis[index] <= inside)
        cells.append((left, math.log2(inside / axis[left]) / math.log2(axis[left + 1] / axis[left])))
    total = sum(math.log2(max(size / axis[-1], 1)) for axis, size in zip(axes, key))
    for corner in range(8):
        weight, place = 1.0, []
        for dim, (left, share) in enumerate(cells):
            right = corner >> dim & 1
            weight *= share if right else 1 - share
            place.append(axes[dim][left + right])
        total += weight * math.log2(filled(grid, axes, tuple(place), at)) if weight else 0.0
    return 2**total


def unaligned(grid, axes, at):
    """Odd sizes, and even ones that are no multiples of eight: the median of what was measured over what aligned ones take."""
    found = ([], [])
    for key, times in grid.items():
        _, inner, outer = key
        if (inner % 8 or outer % 8) and min(inner, outer) >= 256:
            is_even = inner % 2 == 0 and outer % 2 == 0
            found[is_even].append(times[at] / interpolated(grid, axes, key, at))
    return [max(statistics.median(ratios), 1.0) if ratios else 1.0 for ratios in found]


def point(name, dtype, sizes, forward, backward, units):
    return " ".join(["point", name, dtype, *map(str, sizes), number(forward / units), number(backward / units)])


def points(data):
    for row in data["batched"]:
        units = 2 * row["batch"] * row["rows"] * row["inner"] * row["outer"] / 1e6
        sizes = (row["batch"], row["rows"] * row["outer"], row["inner"])
        yield point("batched", row["dtype"], sizes, row["forward"], row["backward"], units)
    for row in data["attention"]:
        if "error" in row:
            continue
        heads = row["batch"] * row["heads"]
        units = 4 * heads * row["tokens"] ** 2 * row["width"] / 1e6
        kind = "dropout" if row["dropout"] else row["kind"]
        sizes = (heads, row["tokens"], row["width"])
        yield point(f"attention_{kind}", row["dtype"], sizes, row["forward"], row["backward"], units)
    for row in data["convolutions"]:
        if "error" in row:
            continue
        inner = row["inputs"] // row["groups"]
        side = row["side"] if row["transposed"] else row["side"] // row["stride"]
        places, reach = row["batch"] * side**2, row["kernel"] ** 2
        kind = (
            "transposed" if row["transposed"]
            else "depth" if row["groups"] == row["inputs"] and row["groups"] > 1
            else "group" if row["groups"] > 1
            else "point" if reach == 1
            else "wide"
        )  # fmt: skip
        units = 2 * places * inner * row["outputs"] * reach / 1e6
        name = f"convolution_{row['layout']}_{kind}"
        sizes = (places, inner * reach, row["outputs"])
        yield point(name, row["dtype"], sizes, row["forward"], row["backward"], units)
    for row in data["recurrent"]:
        if "error" in row:
            continue
        units = row["tokens"] * row["layers"] * row["directions"]
        sizes = (row["hidden"], row["batch"], row["tokens"])
        yield point(f"recurrent_{row['kind']}", row["dtype"], sizes, row["forward"], row["backward"], units)


def products_within(name, row, measured):
    """The time of Muon's matrix products: five Newton-Schulz iterations of three products of square matrices."""
    if name != "muon":
        return 0.0
    grid = {
        (found["rows"], found["inner"], found["outer"]): [found["forward"]]
        for found in measured
        if found["dtype"] == "bfloat16"
    }
    powers = [key for key in grid if all(size & (size - 1) == 0 for size in key)]
    axes = [sorted({key[axis] for key in powers}) for axis in range(3)]
    size = round((row["elements"] / row["weights"]) ** 0.5)
    return row["weights"] * 5 * 3 * interpolated(grid, axes, (size, size, size), 0)


def optimizers(rows, launch, measured):
    """`launch`: what a launch costs the CPU and the GPU at least. Weight by weight, more launches than the queue of launches
    holds keep the GPU waiting, so that only the few large weights tell its own time; small ones take what launches take.
    `measured`: the matrix products."""
    groups = defaultdict(list)
    for row in rows:
        if "error" not in row:
            groups[row["optimizer"], row.get("implementation", "foreach")].append(row)
    for (name, implementation), found in groups.items():
        key = "whole" if name == "scaler" else "cpu"
        few, many = (row for row in found if row["elements"] / row["weights"] < 1000)
        cpu = [row[key] - row.get("without", 0.0) for row in (few, many)]
        each = max((cpu[1] - cpu[0]) / (many["weights"] - few["weights"]), 0.0)
        base = max(cpu[0] - few["weights"] * each, 0.0)
        large = [row for row in found if row["elements"] / row["weights"] >= 1000]
        gpu_each = 0.0
        if name == "scaler":
            gpu_byte = max(large[0]["whole"] - large[0]["without"] - base - large[0]["weights"] * each, 0.0)
            gpu_byte /= 4 * large[0]["elements"]
        elif implementation == "cpu":
            gpu_byte = max(large[0]["cpu"] - base - large[0]["weights"] * each, 0.0) / (4 * large[0]["elements"])
        elif implementation == "for-loop":
            gpu_byte = (large[-1]["gpu"] - products_within(name, large[-1], measured)) / (4 * large[-1]["elements"])
            gpu_each = each / launch[0] * launch[1]
        elif len(large) == 2:
            (one, other) = large
            # gpu = each * weights + byte * bytes, from two sizes
            by = one["weights"] / other["weights"]
            gpu_byte = (one["gpu"] - by * other["gpu"]) / (4 * (one["elements"] - by * other["elements"]))
            gpu_each = max((one["gpu"] - 4 * one["elements"] * gpu_byte) / one["weights"], 0.0)
            if gpu_each == 0.0:
                gpu_byte = one["gpu"] / (4 * one["elements"])
        else:
            gpu_byte = large[0]["gpu"] / (4 * large[0]["elements"])
        yield " ".join(["optimizer", name, implementation, *map(number, (base, each, gpu_each, gpu_byte))])


def selective_constants(more):
    """What a region and a call of it cost more where results are kept."""
    return {
        f"selective{each}_{side}": more[side][part]
        for side in ("forward", "backward")
        for each, part in (("", "region"), ("_each", "call"))
    }


def measured_apart(name):
    return json.loads((Path(__file__).parent / name).read_text())


def constants(rows, stacks, factors):
    by_name = {row["op"]: row for row in rows if "op" in row}
    forward = lambda name: by_name[name]["forward"]  # noqa: E731
    backward = lambda name: by_name[name]["backward"]  # noqa: E731
    # A region of k layers costs base + k * each more than without a checkpoint; what runs again is counted by itself.
    more = {}
    for side, again in (("forward", 0.0), ("backward", 1.0)):
        small, large = (
            by_name[f"checkpoint_{count}"][side]
            - by_name[f"checkpoint_{count}_plain"][side]
            - again * forward(f"checkpoint_{count}_plain") * (count - 1) / count
            for count in (1, 8)
        )
        more[side] = ((large - small) / 7, small - (large - small) / 7)
    values = {
        **stacks.constants(),
        "backward_call": backward("backward_call"),
        "read_number": forward("read_number"),
        "forward": factors[0],
        "backward": factors[1],
        "checkpoint_forward": max(more["forward"][1], 0.0),
        "checkpoint_each_forward": more["forward"][0],
        "checkpoint_backward": max(more["backward"][1], 0.0),
        "checkpoint_each_backward": more["backward"][0],
        **selective_constants(measured_apart("selective.json")["more"]),
    }
    return [f"constant {name} {number(value)}" for name, value in values.items()]


def host_copies(rows):
    for memory in ("pinned", "pageable"):
        own = [row for row in rows if row["pinned"] == (memory == "pinned")]
        pairs = [",".join(f"{row['bytes']}:{number(row[side])}" for row in own) for side in ("to_host", "to_gpu")]
        yield " ".join(["host", memory, *pairs])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("micro", help="what micro.py wrote, compressed or not")
    parser.add_argument("--factors", type=float, nargs=2, default=FACTORS, help="forward and backward")
    given = parser.parse_args()
    opened = gzip.open if given.micro.endswith(".gz") else open
    with opened(given.micro, "rt") as file:
        data = json.load(file)
    facts = data["environment"]
    print(HEAD, end="")
    print(f"# {facts['gpu']}, torch {facts['torch']}, CPU {facts['processor']}\n")
    stacks = Stacks(data)
    launch = (
        next(row["forward"] for row in data["dispatch"] if row.get("op") == "add_"),
        min(row["forward"] for row in data["kernels"] if row["op"] == "add_"),
    )
    copies = [f"{row['bytes']}:{number(row['forward'])}" for row in data["dispatch"] if row.get("op") == "copy_to_gpu"]
    lines = [
        *constants(data["dispatch"], stacks, given.factors),
        " ".join(["copy", *copies]),
        *host_copies(measured_apart("host_copies.json")["rows"]),
        *stacks.lines(),
        *optimizers(data["optimizers"] + data.get("newer_optimizers", []), launch, data["products"]),
        *products(data["products"]),
        *points(data),
        *kernels(data["kernels"]),
    ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
