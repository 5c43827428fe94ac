"""The Python package on a real GPU: compares estimates with what `vramfit.watch` measures, explains an out-of-memory error, and
applies plans to live models under a cap at which the plain loop runs out of memory.

    VRAMFIT_BINARY=… python3 validation/front/run.py --out "$OUT/front.json"

Each run has its own process. On the CPU (--device cpu --tiny) it only shows that the script runs.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = 3

# Name, model of validation/cases, batch, sequence, optimizer and its arguments, settings.
WATCHED = [
    ("gpt2 adamw", "gpt2", 4, 256, "AdamW", {}, {}),
    ("gpt2 adam decay", "gpt2", 4, 256, "Adam", {"weight_decay": 0.1}, {}),
    ("gpt2 adam decay fused", "gpt2", 4, 256, "Adam", {"weight_decay": 0.1, "fused": True}, {}),
    ("bert momentum decay", "bert-base", 16, 128, "SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}, {}),
    ("bert amp bf16", "bert-base", 16, 128, "AdamW", {}, {"amp": "bf16"}),
    ("resnet50 adamw", "resnet50", 16, None, "AdamW", {}, {}),
]
PLANNED = [("gpt2", 8, 512), ("bert-base", 32, 256), ("resnet50", 64, None)]
SHARE = 0.6


def setup(job):
    """The model, inputs and targets on the CPU, the loss function."""
    sys.path[:0] = [str(ROOT / "validation"), str(ROOT / "python")]
    import torch
    from cases import MODELS, loss_function, make_inputs
    from cases.case import Case

    torch.set_num_threads(2)
    entry = MODELS[job["model"]]
    tiny = job["tiny"]
    batch, seq = (4, 8 if job["seq"] else None) if tiny else (job["batch"], job["seq"])
    model = entry.build("cpu", tiny).train()
    inputs, targets = make_inputs(entry, Case("front", job["model"], batch, seq), tiny)
    return torch, model, inputs, targets, loss_function(entry)


def moved(inputs, targets, device):
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    return inputs, None if targets is None else targets.to(device)


def loss_of(outputs, targets, loss):
    return outputs.loss if loss is None else loss(outputs, targets)


def cap(torch, size):
    """The half byte makes the fraction's rounding irrelevant."""
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction((size + 0.5) / torch.cuda.get_device_properties(0).total_memory, 0)


def measured(torch):
    if not torch.cuda.is_available():
        return {}
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved()}


def watched(job):
    """One clean loop, or one that dies under a cap."""
    torch, model, inputs, targets, loss = setup(job)
    import vramfit

    model = model.to(job["device"])
    inputs, targets = moved(inputs, targets, job["device"])
    optimizer = getattr(torch.optim, job["optimizer"])(model.parameters(), **job["arguments"])
    before = measured(torch)
    began = time.time()
    estimate = vramfit.estimate(model, inputs, targets=targets, loss=loss, optimizer=optimizer, **job["settings"])
    result = {"estimate_seconds": time.time() - began, "untouched": before == measured(torch), "exact": estimate.exact}
    result["expected"] = {"peak_allocated": estimate.peak_allocated, "peak_reserved": estimate.peak_reserved, "range": vars(estimate.range)}
    if job["share"]:
        cap(torch, int(estimate.peak_reserved * job["share"]))
    amp = torch.bfloat16 if job["settings"].get("amp") else None
    said = io.StringIO()
    try:
        with vramfit.watch(expected=estimate, file=said, html=job["html"]) as watch:
            for _ in range(STEPS):
                optimizer.zero_grad()
                with torch.autocast(job["device"], dtype=amp or torch.bfloat16, enabled=amp is not None):
                    outputs = model(**inputs)
                    value = loss_of(outputs, targets, loss)
                value.backward()
                optimizer.step()
    except torch.OutOfMemoryError as error:
        result["died"] = str(error)[:200]
    result["said"] = said.getvalue()
    result["difference"] = watch.difference
    result["findings"] = [finding.kind for finding in watch.explanation.findings] if watch.explanation else None
    result["measured"] = {"peak_allocated": watch.peak_allocated, "peak_reserved": watch.peak_reserved}
    return result


def planned(job):
    """The plain loop under a cap, or the best plan of an effect, applied."""
    torch, model, inputs, targets, loss = setup(job)
    import vramfit

    common = dict(targets=targets, loss=loss)
    began = time.time()
    needed = vramfit.estimate(model, inputs, **common).peak_reserved
    limit = int(needed * SHARE)
    plans = vramfit.plan(model, inputs, vram=limit, **common)
    result = {"seconds_planned": time.time() - began, "cap": limit, "plans": len(plans), "verdict": plans.fit.verdict}
    found = plans.group(job["effect"]) if job["effect"] else (plans.start,)
    if not found:
        return dict(result, skipped="no plan of this effect")
    plan = found[min(job["number"], len(found) - 1)]
    result["plan"] = repr(plan)
    result["expected"] = {"peak_allocated": plan.peak_allocated, "peak_reserved": plan.peak_reserved}
    count = plan.settings["batch"] * plan.settings["accumulate"]
    sizes = plan.settings["sizes"]
    dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(plan.parts.dtype)
    inputs = {name: cut(tensor, count, sizes, dtype) for name, tensor in inputs.items()}
    targets = None if targets is None else targets[:count]
    cap(torch, limit)
    optimizer = torch.optim.AdamW(model.parameters()) if plan.settings["optimizer"] == "adamw" else None
    try:
        # On the CPU: what is cast is cast there.
        applied = plan.apply(model, optimizer)
        model.to(job["device"])
        inputs, targets = moved(inputs, targets, job["device"])
        losses = [float(applied.step(inputs, targets)) for _ in range(STEPS)]
        result["losses"] = losses
    except torch.OutOfMemoryError as error:
        result["died"] = str(error)[:200]
    result["measured"] = measured(torch)
    return result


def trained(job):
    """Hugging Face's Trainer with the callback."""
    try:
        import accelerate  # noqa: F401
    except ImportError:
        return {"skipped": "no accelerate here"}
    torch, model, inputs, _, _ = setup(job)
    import transformers
    from vramfit.integrations.trainer import VramfitCallback

    samples = [{name: tensor[at % len(tensor)] for name, tensor in inputs.items()} for at in range(job["batch"] * STEPS)]
    arguments = transformers.TrainingArguments(
        output_dir=job["folder"], per_device_train_batch_size=job["batch"], max_steps=STEPS, report_to=[], disable_tqdm=True,
        save_strategy="no", use_cpu=job["device"] == "cpu", dataloader_pin_memory=False, **job["settings"],
    )
    callback = VramfitCallback()
    transformers.Trainer(model=model, args=arguments, train_dataset=samples, callbacks=[callback]).train()
    expected = callback.estimate
    return {
        "said": callback.comparison, "unmodelled": expected.unmodelled, "measured": measured(torch), "verdict": expected.verdict,
        "expected": {"peak_allocated": expected.peak_allocated, "peak_reserved": expected.peak_reserved},
    }


def cut(tensor, count, sizes, dtype):
    """An input in the plan's sizes and type."""
    tensor = tensor[:count]
    if not tensor.is_floating_point() and tensor.dim() > 1 and "seq" in sizes:
        tensor = tensor[:, :sizes["seq"]]
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor


def jobs_of(given):
    common = {"device": given.device, "tiny": given.tiny}
    jobs = []
    for name, model, batch, seq, optimizer, arguments, settings in WATCHED:
        jobs.append(dict(common, kind="watched", name=name, model=model, batch=batch, seq=seq, optimizer=optimizer, arguments=arguments, settings=settings, share=None, html=None))
    for share in (0.5, 0.8):
        html = str(given.out.parent / f"oom-{share}.html") if given.out else None
        jobs.append(dict(common, kind="watched", name=f"gpt2 under {share}", model="gpt2", batch=4, seq=256, optimizer="AdamW", arguments={}, settings={}, share=share, html=html))
    for name, settings in (("plain", {}), ("bf16", {"bf16": True}), ("accumulate", {"gradient_accumulation_steps": 2, "max_grad_norm": 0.0})):
        folder = str((given.out.parent if given.out else Path("/tmp")) / "trainer")
        jobs.append(dict(common, kind="trained", name=f"trainer {name}", model="bert-base", batch=16, seq=128, settings=settings, folder=folder))
    for model, batch, seq in PLANNED:
        for effect, number in ((None, 0), ("none", 0), ("none", 1), ("none", 2), ("rounding", 0), ("training", 0)):
            jobs.append(dict(common, kind="planned", name=f"{model} {effect or 'start'} {number}", model=model, batch=batch, seq=seq, effect=effect, number=number))
    return jobs


def run_job(job):
    environment = dict(os.environ, HF_HUB_OFFLINE="1", VRAMFIT_CUDNN="off", TRANSFORMERS_VERBOSITY="error")
    try:
        done = subprocess.run([sys.executable, __file__, "--one"], input=json.dumps(job), capture_output=True, text=True, timeout=240, env=environment)
        result = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        result = {"error": "ran past its time"}
    except (IndexError, ValueError):
        result = {"error": done.stderr[-2000:]}
    return dict(result, name=job["name"], kind=job["kind"])


def summary(result):
    if "error" in result:
        return "error: " + result["error"].strip().splitlines()[-1]
    state = "died" if "died" in result else result.get("skipped", "ran")
    found, wanted = result.get("measured") or {}, result.get("expected")
    if wanted and found.get("peak_reserved"):
        state += "; " + ", ".join(f"{key} {found[key] - wanted[key]:+,} bytes off" for key in ("peak_allocated", "peak_reserved"))
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, for a CPU")
    parser.add_argument("--only", default="", help="names that begin so")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        job = json.load(sys.stdin)
        print(json.dumps({"watched": watched, "planned": planned, "trained": trained}[job["kind"]](job)))
        return 0
    jobs = [job for job in jobs_of(given) if job["name"].startswith(given.only)]
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(run_job, jobs):
            results.append(result)
            print(f"{result['kind']} {result['name']}: {summary(result)}", flush=True)
            if given.out:
                given.out.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any("error" in result for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
