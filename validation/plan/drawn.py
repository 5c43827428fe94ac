"""Models of the sweep drawn at random, and how each is built, captured, planned and trained.

A case has a batch at which activations outweigh the weights, and a cap: a share of what the starting settings would reserve.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SWEEP = HERE.parent / "sweep"
sys.path[:0] = [str(SWEEP), str(HERE.parents[1] / "python")]

# How often a library is drawn from, compared with the other.
WEIGHTS = {"torchvision": 1, "timm": 1, "transformers": 3}
# Of the predicted reserved bytes of the start.
SHARES = (0.55, 0.9)
# What a share is multiplied by while the start fits.
LOWER = 0.93
BYTES = 6 << 30
LARGEST_BATCH = 256
# What the two ways of applying a plan fix, as `vramfit.plan` does for a live model.
WAYS = {"after": {}, "before": {"alloc_conf": "expandable_segments:False"}}


def lines(path):
    """The lines of a JSON file, compressed or not."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return [json.loads(line) for line in text.splitlines()]


def draw(seed, without, libraries):
    """Names of models that the sweep answered, in the order of the draw, each with its share; those of ``without`` are left out."""
    used = {(case["library"], case["model"]) for path in [SWEEP / "blind-first.jsonl.gz", *without] for case in lines(path)}
    left = {library: [] for library in libraries}
    for line in lines(SWEEP / "lines.jsonl.gz"):
        name = line["model"]
        is_flat = not any(part in name for part in ("rcnn", "retinanet", "fcos", "ssd", "raft", "quantized"))
        if line["library"] in left and line["answered"] and (line["library"], name) not in used and is_flat and not line["unmodelled"]:
            left[line["library"]].append(name)
    chooser = random.Random(seed)
    while any(left.values()):
        library = chooser.choices(libraries, [WEIGHTS[name] if left[name] else 0 for name in libraries])[0]
        model = left[library].pop(chooser.randrange(len(left[library])))
        yield {"library": library, "model": model, "share": round(chooser.uniform(*SHARES), 3)}


def examples(case, batch):
    """The examples of a case's model at a batch."""
    models = importlib.import_module(f"libraries.{case['library']}_models")
    models.BATCH = batch
    return models.examples(case["model"])


def named(model, inputs):
    """Inputs as keyword arguments, as the printed code passes them; None where they are not all tensors."""
    import torch

    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if isinstance(inputs, tuple):
        inputs = dict(zip(inspect.signature(model.forward).parameters, inputs))
    return inputs if all(isinstance(value, torch.Tensor) for value in inputs.values()) else None


def planned(case):
    """The case with its batch, its cap and its plans; a reason instead where it has none."""
    import vramfit
    from examples import built

    problems = []
    for index, example in enumerate(examples(case, 4)):
        if index == 3:
            break
        try:
            model, _ = built(example.build)
            inputs = named(model, example.inputs(model))
            if inputs is None:
                raise ValueError("inputs that are not tensors")
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.vramfit"
                vramfit.capture(model, inputs, path, loss=example.loss)
                return {**case, "example": index, **plans_of(path, case["share"])}
        except Exception as problem:  # noqa: BLE001 - the next example may be the right one
            problems.append(f"{type(problem).__name__}: {problem}".partition("\n")[0][:200])
    return dict(case, error="; ".join(problems) or "no example")


def plans_of(path, share):
    """The batch, the cap and the best plan of each way."""
    import vramfit

    common = dict(gpu=None, cudnn="off", inputs_are="fresh")
    batch = 4
    while True:
        start = vramfit.estimate(path, batch=batch, **common)
        weights = 16 * start.parameters
        if start.peak_reserved > max(BYTES // 2, 3 * weights) or 2 * batch > LARGEST_BATCH or start.peak_reserved > BYTES:
            break
        batch *= 2
    # Under a cap PyTorch releases cached blocks, so that the start may run in less than it reserves without one.
    while True:
        cap = int(start.peak_reserved * share) >> 20 << 20
        verdict = vramfit.estimate(path, batch=batch, vram=cap, **common).fit.verdict
        if verdict == "does-not-fit":
            break
        share *= LOWER
    found = {"batch": batch, "share": round(share, 3), "cap": cap, "plans": {}}
    for way, fixed in WAYS.items():
        plans = vramfit.plan(path, batch=batch, vram=cap, **{**common, **fixed})
        if plans.best is None:
            raise ValueError(f"{way}: nothing fits in {cap >> 20} MiB of {start.peak_reserved >> 20}")
        found["start"] = plans.start.raw
        found["plans"][way] = plans.best.raw
    return found


def trained(job):
    """In the child: trains the case in one of the ways and returns what was measured. The batch comes from the CPU."""
    import torch
    import vramfit.applying.batches as batches
    from vramfit.answers.plan import Plan

    case, way, steps, device = job["case"], job["way"], job["steps"], job["device"]
    raw = case["start"] if way in ("start", "free") else case["plans"]["before" if way == "before" else "after"]
    settings = raw["settings"]
    batch = case["batch"] if not job["tiny"] else 2 * settings["accumulate"]
    torch.set_num_threads(2)
    torch.manual_seed(0)
    example = next(example for index, example in enumerate(examples(case, batch)) if index == case["example"])
    model = example.build()
    whole = named(model, example.inputs(model))
    if settings["batch"] * settings["accumulate"] < case["batch"]:  # another training: a smaller batch
        whole = batches.changed(whole, lambda tensor: tensor[: settings["batch"] * settings["accumulate"]] if tensor.dim() and tensor.shape[0] == batch else tensor)
    if device == "cuda":
        torch.cuda.init()
        if way != "free":
            # The half byte makes the fraction's rounding irrelevant.
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (case["cap"] + 0.5) / total), 0)
    import time

    times = []

    def ticked():
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter())

    def micro_batches():
        for _ in range(steps):
            ticked()
            for part in batches.micro_batches(whole, None, settings["accumulate"]):
                yield part.kwargs

    result = {"name": job["name"], "way": way}
    try:
        if way in ("before", "after"):
            if way == "before":
                model.to(device)
            optimizer = torch.optim.AdamW(model.parameters()) if settings["optimizer"] == "adamw" else None
            applied = Plan.of(raw, example.loss).apply(model, optimizer)
            if way == "after":
                model.to(device)
            for _ in range(steps):
                ticked()
                applied.step(whole)
        else:
            code = raw["code"].replace('device = "cuda"', f'device = "{device}"')
            names = {"model": model, "batches": micro_batches(), "compute_loss": example.loss, "targets": None}
            del model
            exec(compile(code, "printed", "exec"), names)
        ticked()
    except torch.OutOfMemoryError as error:
        result["died"] = f"step {len(times)}: {str(error)[:200]}"
    if device == "cuda":
        result["peak_allocated"] = torch.cuda.max_memory_allocated()
        result["peak_reserved"] = torch.cuda.max_memory_reserved()
        result["num_alloc_retries"] = torch.cuda.memory_stats()["num_alloc_retries"]
    spans = sorted(after - before for before, after in zip(times[3:], times[4:]))
    if spans and "died" not in result:
        result["seconds"] = spans[len(spans) // 2]
    result["steps"] = max(0, len(times) - 1)
    return result
