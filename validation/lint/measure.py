"""Measures the claims of the lint rules on a CUDA GPU. Needs only torch.

    python3 validation/lint/measure.py --out FILE [--only NAME,NAME] [--jobs N]
    python3 validation/lint/measure.py --dry-run            # the same code on the CPU, small; numbers mean nothing

Every case runs in its own process, so that no case sees another's memory. Sizes are in bytes as PyTorch's allocator counts them.
Times are medians of single steps, each with a wait for the GPU.
"""

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional

DRY = bool(os.environ.get("VRAMFIT_DRY_RUN"))
DEVICE = "cpu" if DRY else "cuda"
MIB = 1 << 20


class Block(nn.Module):
    """A residual block of convolutions, as in ResNet."""

    def __init__(self, channels, inplace=False):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return functional.relu(x + self.body(x))


class Attention(nn.Module):
    """A transformer layer."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


def mlp():
    width = 64 if DRY else 2048
    model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())], nn.Linear(width, 100))
    return model, lambda batch: (torch.randn(batch, width), torch.randint(100, (batch,))), 16 if DRY else 512


def cnn(inplace=False):
    channels, side = (4, 8) if DRY else (64, 56)
    model = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), *[Block(channels, inplace) for _ in range(4)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100))
    return model, lambda batch: (torch.randn(batch, 3, side, side), torch.randint(100, (batch,))), 4 if DRY else 64


def transformer():
    width, layers, length, words = (32, 2, 8, 50) if DRY else (768, 6, 256, 8192)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.layers = nn.Sequential(*[Attention(width, 4 if DRY else 12) for _ in range(layers)])
            self.head = nn.Linear(width, words)

        def forward(self, x):
            return self.head(self.layers(self.embedding(x))).flatten(0, 1)

    return Model(), lambda batch: (torch.randint(words, (batch, length)), torch.randint(words, (batch, length)).flatten()), 2 if DRY else 16


MODELS = {"mlp": mlp, "cnn": cnn, "transformer": transformer}


def setup(name, batch=None, **options):
    torch.manual_seed(0)
    model, make, default = MODELS[name](**options)
    model = model.to(DEVICE)
    x, y = make(batch or default)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    return model, optimizer, x.to(DEVICE), y.to(DEVICE)


def allocated():
    return 0 if DRY else torch.cuda.memory_allocated()


def peak():
    return 0 if DRY else torch.cuda.max_memory_allocated()


def reset():
    if not DRY:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def wait():
    if not DRY:
        torch.cuda.synchronize()


def parameter_bytes(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def growth(run, warm=3, steps=10):
    """Bytes an iteration adds, once it runs evenly."""
    for _ in range(warm):
        run()
    before = allocated()
    for _ in range(steps):
        run()
    return (allocated() - before) / steps


def keep_loss(name):
    """VF001: what `total += loss` and `losses.append(loss)` keep."""
    model, optimizer, x, y = setup(name)
    result = {}
    state = {"total": 0}
    losses = []

    def add():
        state["total"] += step(model, optimizer, x, y)

    def append():
        losses.append(step(model, optimizer, x, y))

    def add_detached():
        state["total"] += step(model, optimizer, x, y).detach()

    def add_without_backward():
        state["total"] += functional.cross_entropy(model(x), y)

    for label, run in (("add_after_backward", add), ("append_after_backward", append), ("add_detached", add_detached), ("add_without_backward", add_without_backward)):
        state["total"] = 0
        losses.clear()
        gc.collect()
        result[label + "_per_step"] = growth(run, steps=5 if label == "add_without_backward" else 10)
    result["no_grad_per_step"] = None
    state["total"] = 0
    with torch.no_grad():
        result["no_grad_per_step"] = growth(add_without_backward)
    return result


def keep_loss_host(name):
    """VF001: main memory that the kept graph's nodes take, over many steps of a small model."""
    model, optimizer, x, y = setup(name, batch=2)
    steps = 20 if DRY else 2000
    result = {}
    for label, keep in (("item", lambda loss: loss.item()), ("graph", lambda loss: loss)):
        total = 0.0
        for _ in range(20):
            step(model, optimizer, x, y)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        for _ in range(steps):
            total = total + keep(step(model, optimizer, x, y))
        result[label + "_host_per_step"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before) / steps
        del total
        gc.collect()
    return result


def keep_output(name):
    """VF002, VF016: outputs kept with their graph, detached, and as one number each."""
    model, optimizer, x, y = setup(name)
    kept = []
    result = {}

    def forward_backward(keep):
        optimizer.zero_grad()
        out = model(x)
        functional.cross_entropy(out, y).backward()
        optimizer.step()
        keep(out)

    runs = {
        "with_graph_after_backward": lambda: forward_backward(kept.append),
        "detached": lambda: forward_backward(lambda out: kept.append(out.detach())),
        "with_graph_no_backward": lambda: kept.append(model(x)),
        "count_of_right_ones": lambda: forward_backward(lambda out: kept.append((out.argmax(1) == y).sum())),
    }
    for label, run in runs.items():
        kept.clear()
        gc.collect()
        result[label + "_per_step"] = growth(run, steps=5)
    result["output_bytes"] = model(x).numel() * 4
    return result


def no_grad(name):
    """VF003: the peak of an evaluation with and without autograd; VF004: with 16 times the batch."""
    result = {}
    model, optimizer, x, y = setup(name)
    model.eval()
    for label, context in (("grad", torch.enable_grad), ("no_grad", torch.no_grad), ("inference_mode", torch.inference_mode)):
        with context():
            for _ in range(3):
                out = model(x)
                del out
            base = allocated()
            reset()
            out = model(x)
            result[label + "_peak"] = peak() - base
            result[label + "_held"] = allocated() - base
            del out
    del x, y
    batch = {"mlp": 512, "cnn": 64, "transformer": 16}[name] if not DRY else 2
    model, optimizer, x, y = setup(name, batch=batch)
    for _ in range(2):
        step(model, optimizer, x, y)
    base = allocated()
    reset()
    step(model, optimizer, x, y)
    result["train_peak"] = peak() - base
    del x, y
    model, optimizer, x, y = setup(name, batch=batch * 16)
    model.eval()
    with torch.no_grad():
        base = allocated()
        reset()
        out = model(x)
        result["no_grad_16_times_peak"] = peak() - base
        del out
    return result


def zero_grad(name):
    """VF005, VF006: where and how gradients are zeroed."""
    result = {}
    for label, before, to_none in (("before_forward", True, True), ("after_forward", False, True), ("in_place_before_forward", True, False)):
        model, optimizer, x, y = setup(name)
        loss = None
        for number in range(4):
            if number == 3:
                reset()
            if before:
                optimizer.zero_grad(set_to_none=to_none)
            loss = functional.cross_entropy(model(x), y)
            if number == 3:
                result[label + "_after_forward_allocated"] = allocated()
            if not before:
                optimizer.zero_grad(set_to_none=to_none)
            loss.backward()
            optimizer.step()
        result[label + "_peak"] = peak()
        result["parameters"] = parameter_bytes(model)
        del model, optimizer, x, y, loss
        gc.collect()
    return result


def retain_graph(name):
    """VF007: what the step keeps with `retain_graph=True`."""
    result = {}
    for label, retain in (("freed", False), ("retained", True)):
        model, optimizer, x, y = setup(name)
        for number in range(4):
            if number == 3:
                reset()
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward(retain_graph=retain)
            optimizer.step()
        result[label + "_peak"] = peak()
        result[label + "_after_step"] = allocated()
        del model, optimizer, x, y, loss
        gc.collect()
    return result


def outputs_held(name):
    """VF008: the peak with the last outputs held, and freed."""
    result = {}
    for label, lets_go in (("held", False), ("let_go", True)):
        model, optimizer, x, y = setup(name)
        for number in range(4):
            if number == 3:
                reset()
            optimizer.zero_grad()
            out = model(x)
            loss = functional.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            if lets_go:
                del out, loss
        result[label + "_peak"] = peak()
        del model, optimizer, x, y
        gc.collect()
    return result


def empty_cache(name):
    """VF009: the time of a step, and the peaks, with and without emptying the cache."""
    result = {}
    for label, empties in (("without", False), ("with", True)):
        model, optimizer, x, y = setup(name)
        times = []
        for number in range(8 if DRY else 40):
            wait()
            start = time.perf_counter()
            step(model, optimizer, x, y)
            if empties and not DRY:
                torch.cuda.empty_cache()
            wait()
            times.append(time.perf_counter() - start)
        result[label + "_milliseconds"] = statistics.median(times[5:]) * 1e3
        result[label + "_peak"] = peak()
        result[label + "_peak_reserved"] = 0 if DRY else torch.cuda.max_memory_reserved()
        del model, optimizer, x, y
        gc.collect()
        reset()
    return result


def load(name):
    """VF010: the peak of loading a checkpoint beside the model."""
    model, optimizer, x, y = setup(name)
    step(model, optimizer, x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        del model, optimizer
        gc.collect()
        result = {}
        for label, options in (("where_saved", {}), ("onto_gpu", {"map_location": DEVICE}), ("onto_cpu", {"map_location": "cpu"})):
            model, optimizer, _, _ = setup(name)
            base = allocated()
            reset()
            checkpoint = torch.load(path, **options)
            model.load_state_dict(checkpoint["model"])
            result[label + "_peak"] = peak() - base
            optimizer.load_state_dict(checkpoint["optimizer"])
            result[label + "_after"] = allocated() - base
            result["parameters"] = parameter_bytes(model)
            del model, optimizer, checkpoint
            gc.collect()
    return result


class Failed(RuntimeError):
    """Stands for an out-of-memory error, which is a RuntimeError too."""


def oom_retry(name):
    """VF011: what is allocated when the retry starts."""
    model, optimizer, x, y = setup(name)
    model(x).sum().backward()
    model.zero_grad()
    gc.collect()
    base = allocated()

    def fails():
        activations = [functional.relu(model(x)) for _ in range(2)]
        raise Failed("CUDA out of memory") if activations else None

    result = {}
    try:
        fails()
    except Failed:
        if not DRY:
            torch.cuda.empty_cache()
        result["inside_except_held"] = allocated() - base
    result["after_except_held"] = allocated() - base
    return result


def autocast(name):
    """VF012: the peak of a step in float32 and under autocast."""
    result = {}
    for label, dtype in (("float32", None), ("bfloat16", torch.bfloat16)):
        model, optimizer, x, y = setup(name)
        for number in range(4):
            if number == 3:
                base = allocated()
                reset()
            optimizer.zero_grad()
            with torch.autocast(DEVICE, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        result[label + "_peak"] = peak()
        result[label + "_base"] = base
        del model, optimizer, x, y, loss
        gc.collect()
    return result


def in_place():
    """VF013: chains of convolution, batch norm and ReLU, with and without `inplace=True`."""
    result = {}
    channels, side, batch = (4, 8, 2) if DRY else (64, 56, 32)
    for chain in ("conv_relu", "conv_bn_relu", "linear_silu"):
        for inplace in (False, True):
            torch.manual_seed(0)
            layers = []
            for _ in range(4):
                if chain == "linear_silu":
                    layers += [nn.Linear(channels * 16, channels * 16), nn.SiLU(inplace=inplace)]
                    continue
                layers.append(nn.Conv2d(channels, channels, 3, padding=1))
                if chain == "conv_bn_relu":
                    layers.append(nn.BatchNorm2d(channels))
                layers.append(nn.ReLU(inplace=inplace))
            model = nn.Sequential(*layers).to(DEVICE)
            x = torch.randn(batch * 64, channels * 16, device=DEVICE) if chain == "linear_silu" else torch.randn(batch, channels, side, side, device=DEVICE)
            label = f"{chain}_{'in_place' if inplace else 'apart'}"
            for mode in ("train", "eval"):
                for number in range(3):
                    base = allocated()
                    reset()
                    with torch.set_grad_enabled(mode == "train"):
                        out = model(x)
                    if number == 2:
                        result[f"{label}_{mode}_held_after_forward"] = allocated() - base
                        result[f"{label}_{mode}_forward_peak"] = peak() - base
                    if mode == "train":
                        out.sum().backward()
                        model.zero_grad()
                    del out
            result["one_activation"] = x.numel() * 4
            del model, x
            gc.collect()
    return result


def made_on_cpu():
    """VF015: a tensor made on the CPU and moved, and made where it is used."""
    shape = (16, 16) if DRY else (4096, 1024)
    result = {"bytes": shape[0] * shape[1] * 4}
    makers = {
        "zeros_moved": lambda: torch.zeros(*shape).to(DEVICE),
        "zeros_there": lambda: torch.zeros(*shape, device=DEVICE),
        "randn_moved": lambda: torch.randn(*shape).to(DEVICE),
        "randn_there": lambda: torch.randn(*shape, device=DEVICE),
    }
    for label, make in makers.items():
        times = []
        for _ in range(30):
            wait()
            start = time.perf_counter()
            made = make()
            wait()
            times.append(time.perf_counter() - start)
            del made
        result[label + "_milliseconds"] = statistics.median(times[5:]) * 1e3
    data = [torch.randn(64, *(4, 8) if DRY else (3, 64, 64)) for _ in range(10)]
    before = allocated()
    moved = [batch.to(DEVICE) for batch in data]
    result["whole_set_held"] = allocated() - before
    result["one_batch"] = data[0].numel() * 4
    del moved
    return result


def accumulation(name):
    """VF014: the peak of a whole batch, and of four quarters."""
    result = {}
    for label, parts in (("whole", 1), ("quarters", 4)):
        model, optimizer, x, y = setup(name)
        xs, ys = x.chunk(parts), y.chunk(parts)
        for number in range(3):
            if number == 2:
                reset()
            optimizer.zero_grad()
            for part, target in zip(xs, ys):
                (functional.cross_entropy(model(part), target) / parts).backward()
            optimizer.step()
        result[label + "_peak"] = peak()
        del model, optimizer, x, y, xs, ys
        gc.collect()
    return result


PER_MODEL = [keep_loss, keep_loss_host, keep_output, no_grad, zero_grad, retain_graph, outputs_held, empty_cache, load, oom_retry, autocast, accumulation]
CASES = {f"{case.__name__}.{name}": (case, name) for case in PER_MODEL for name in MODELS}
CASES |= {"in_place": (in_place, None), "made_on_cpu": (made_on_cpu, None)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    parser.add_argument("--only", default="")
    parser.add_argument("--case")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    if options.case:
        case, name = CASES[options.case]
        print(json.dumps(case(name) if name else case()))
        return
    environment = dict(os.environ, VRAMFIT_DRY_RUN="1") if options.dry_run else os.environ
    wanted = [case for case in CASES if not options.only or any(case.startswith(word) for word in options.only.split(","))]
    results = {}
    # One after the other: times would suffer otherwise, and each takes a few seconds.
    for case in wanted:
        ran = subprocess.run([sys.executable, __file__, "--case", case], env=environment, capture_output=True, text=True)
        if ran.returncode:
            print(ran.stderr[-2000:], file=sys.stderr)
            results[case] = {"failed": ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else "no output"}
        else:
            results[case] = json.loads(ran.stdout.splitlines()[-1])
        print(case, results[case], flush=True)
    record = {"torch": torch.__version__, "gpu": None if options.dry_run else torch.cuda.get_device_name(), "cases": results}
    if options.out:
        with open(options.out, "w") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
    sys.exit(any("failed" in result for result in results.values()))


if __name__ == "__main__":
    main()
