"""Times real training steps, one process at a time: each model under its settings of `runs.py`.

    python3 validation/price/steps.py --out "$OUT/steps.json"

A step's time is the median time between the ends of consecutive steps on the GPU's own clock. Nothing waits for the GPU except
the loop itself. The settings of a model take turns, a few steps each; the first step of a turn does not count. `--device cpu
--tiny` only shows that the script runs.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))

import fork_pool  # noqa: E402

fork_pool.prepare_environment()

WARM = 3
ROUNDS = 4
MOST_STEPS = 5
LEAST_STEPS = 2
WANTED_SECONDS = 0.6


class Marks:
    """Times at the ends of phases: on the GPU, and when the CPU got there."""

    def __init__(self, device):
        self.device = device
        self.events, self.seconds = [], []

    def __call__(self):
        import torch

        self.seconds.append(time.perf_counter())
        if self.device == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)

    def distances(self):
        """Milliseconds from each mark to the next: GPU, CPU."""
        cpu = [(later - earlier) * 1e3 for earlier, later in zip(self.seconds, self.seconds[1:])]
        if self.device != "cuda":
            return cpu, cpu
        return [earlier.elapsed_time(later) for earlier, later in zip(self.events, self.events[1:])], cpu


def one_step(case, model, given, wanted, function, optimizer, scaler, device, mark):
    """As validation/measure/loop.py does it."""
    import torch
    from loop import loss_of
    from memory_tricks import offload
    from settings import autocast

    optimizer.zero_grad(set_to_none=True)
    for micro in range(case.accumulate):
        inputs, targets = given, wanted
        if case.inputs == "fresh":
            inputs = {name: tensor.to(device) for name, tensor in given.items()}
            targets = wanted.to(device) if wanted is not None else None
        with offload(case.offload_activations), autocast(case.amp, device):
            outputs = model(**inputs)
            loss = loss_of(outputs, targets, function)
            if case.accumulate > 1:
                loss = loss / case.accumulate
        if micro == case.accumulate - 1:
            mark()
        (scaler.scale(loss) if scaler else loss).backward()
    mark()
    if case.clip_grad:
        if scaler:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    mark()


def build(case, device, tiny):
    from memory_tricks import replace_loss
    from settings import apply_checkpointing

    from cases import DTYPES, MODELS

    entry = MODELS[case.model]
    try:
        model = entry.build(device, tiny)
    except (NotImplementedError, RuntimeError):
        model = entry.build("cpu", tiny)
    model = model.to(DTYPES[case.dtype]).to(device).train()
    apply_checkpointing(model, case.checkpoint, case.checkpoint_save)
    replace_loss(model, case.chunked_loss, case.fused_linear_loss)
    return model


def prepare(case, device, tiny, built):
    """`built` holds the models of earlier settings: weights are the same whatever the optimizer."""
    from case_optimizers import make_optimizer
    from settings import make_scaler

    from cases import MODELS, loss_function, make_inputs

    entry = MODELS[case.model]
    key = (case.model, case.dtype, case.checkpoint, case.checkpoint_save, case.chunked_loss, case.fused_linear_loss)
    if key not in built:
        built[key] = build(case, device, tiny)
    model = built[key]
    inputs, targets = make_inputs(entry, case, tiny)
    if case.inputs == "kept":
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        targets = targets.to(device) if targets is not None else None
    optimizer = make_optimizer(case.optimizer, case.optimizer_impl, model.parameters())
    scaler = make_scaler(case.amp, device)
    function = loss_function(entry)
    return lambda mark: one_step(case, model, inputs, targets, function, optimizer, scaler, device, mark)


def synchronize(device):
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


class Timed:
    """One setting, ready to be timed in turn with the others."""

    def __init__(self, case, device, tiny, built):
        self.device = device
        self.step = prepare(case, device, tiny, built)
        self.gpu, self.cpu = [], []
        ignore = Marks(device)
        for _ in range(WARM):
            self.step(ignore)
        synchronize(device)
        began = time.perf_counter()
        self.step(ignore)
        synchronize(device)
        self.alone = time.perf_counter() - began
        self.count = 1 if tiny else int(min(MOST_STEPS, max(LEAST_STEPS, WANTED_SECONDS / ROUNDS / self.alone)))

    def round(self):
        """Some steps; the first fills the queue and is not counted."""
        self.step(Marks(self.device))
        marks = Marks(self.device)
        marks()
        for _ in range(self.count):
            self.step(marks)
        synchronize(self.device)
        gpu, cpu = marks.distances()
        self.gpu += gpu
        self.cpu += cpu

    def result(self):
        phases = ("forward", "backward", "step")
        median = lambda times, at: statistics.median(times[at::3])  # noqa: E731
        sums = [sum(self.gpu[at : at + 3]) for at in range(0, len(self.gpu), 3)]
        return {
            "ms": statistics.median(sums),
            "spread": [min(sums), max(sums)],
            "alone_ms": self.alone * 1e3,
            "steps": len(sums),
            "gpu_phases": {name: median(self.gpu, at) for at, name in enumerate(phases)},
            "cpu_phases": {name: median(self.cpu, at) for at, name in enumerate(phases)},
        }


def profile_case(case, device, tiny, built):
    """The kernels of one step: how often, and microseconds together."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    step = prepare(case, device, tiny, built)
    ignore = Marks(device)
    for _ in range(WARM):
        step(ignore)
    synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        step(ignore)
        synchronize(device)
    kernels = {}
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            name = event.name[:110]
            count, total = kernels.get(name, (0, 0.0))
            kernels[name] = (count + 1, total + event.time_range.elapsed_us())
    ordered = sorted(kernels.items(), key=lambda item: -item[1][1])
    return {
        "kernels": sum(count for count, _ in kernels.values()),
        "busy_us": sum(total for _, total in kernels.values()),
        "top": [[name, count, round(total, 1)] for name, (count, total) in ordered[:45]],
    }


def rounded(value):
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def cases_of(group, model, tiny):
    import runs

    for case in getattr(runs, group)()[model]:
        if tiny:
            case = replace(case, batch=4 if case.accumulate == 1 else 1, seq=8 if case.seq else None)
        yield {"setting": case.name, "model": case.model, "settings": case.settings()}, case


def time_model(group, model, device="cuda", tiny=False, skip=()):
    """All settings of a model in this process, in turns: what else happens on the machine then meets all of them."""
    import torch

    torch.set_num_threads(2)
    built, rows = {}, []
    for row, case in cases_of(group, model, tiny):
        if case.name in skip:
            continue
        try:
            rows.append((row, Timed(case, device, tiny, built)))
        except Exception as error:
            rows.append(({**row, "error": f"{type(error).__name__}: {error}"[:400]}, None))
    for _ in range(ROUNDS):
        for _, timed in rows:
            if timed:
                timed.round()
        gc.collect()
    return {"rows": [rounded({**row, **(timed.result() if timed else {})}) for row, timed in rows]}


def profile_model(model, device="cuda", tiny=False, settings=("base", "amp")):
    import torch

    found, built = [], {}
    for row, case in cases_of("validation", model, tiny):
        if case.name in settings:
            try:
                row.update(profile_case(case, device, tiny, built))
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[:400]
            found.append(rounded(row))
            if device == "cuda":
                torch.cuda.empty_cache()
    return {"rows": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    parser.add_argument("--only", default="", help="models with commas between")
    parser.add_argument("--parts", default="calibration,validation,profiles", help="with commas between")
    parser.add_argument("--skip", default="", help="settings that are left out, with commas between")
    parser.add_argument("--deadline", type=int, default=300, help="seconds after which nothing more is begun")
    given = parser.parse_args()

    import runs
    from measure import imports

    imports()
    began = time.time()
    result = {"environment": None}
    environment = {"name": "environment", "call": "micro:environment", "arguments": {"device": given.device}}
    result["environment"] = fork_pool.run([environment], 1, 60, given.device)["environment"]

    def report(name, answer, done, total):
        failed = [row["setting"] for row in answer.get("rows", []) if "error" in row]
        print(f"{time.time() - began:.0f} s {done}/{total} {name} {answer.get('error', '')} {failed or ''}", flush=True)

    skip = [name for name in given.skip.split(",") if name]
    for part in given.parts.split(","):
        group = "validation" if part == "profiles" else part
        names = [name for name in getattr(runs, group)() if not given.only or name in given.only.split(",")]
        common = {"device": given.device, "tiny": given.tiny}
        jobs = []
        for name in names:
            if part == "profiles":
                job = {"call": "steps:profile_model", "arguments": {"model": name, **common}}
            else:
                job = {"call": "steps:time_model", "arguments": {"group": group, "model": name, "skip": skip, **common}}
            jobs.append({"name": name, **job})
        result[part] = fork_pool.run(jobs, 1, 90, given.device, report, began + given.deadline)
        given.out.write_text(json.dumps(result, separators=(",", ":")))


if __name__ == "__main__":
    main()
