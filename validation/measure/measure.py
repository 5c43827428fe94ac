"""Measures one case in a fresh process, by the protocol in README.md.

    python3 validation/measure/measure.py --case bert-small --runs 3 --out result.json
    python3 validation/measure/measure.py --case bert-small --trace --out trace.json.gz
    python3 validation/measure/measure.py --case bert-small --annotate --out annotated.json.gz

On the CPU (--device cpu --tiny) it only shows that the script runs.
"""

import argparse
import gzip
import json
import platform
import sys
from dataclasses import replace
from pathlib import Path

import fork_pool

fork_pool.prepare_environment()

MIB = 1024 * 1024


def imports():
    """What every job needs, imported in the parent so that forks share it. Returns nothing to hold."""
    import annotate  # noqa: F401
    import case_optimizers  # noqa: F401
    import loop  # noqa: F401
    import meter  # noqa: F401
    import torch  # noqa: F401
    import trace_events  # noqa: F401
    import transformers  # noqa: F401

    from cases import MODELS

    for model in MODELS.values():
        if "architecture" in model.arguments:
            getattr(transformers, model.arguments["architecture"])
    import torchvision  # noqa: F401


def set_cap(cap):
    """The half byte makes the fraction's rounding irrelevant."""
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, (cap + 0.5) / total), 0)
    return {"cap": cap, "total_memory": total, "mem_get_info_total": torch.cuda.mem_get_info(0)[1]}


def measure(case_name, device="cuda", tiny=False, kind="plain", cap=None, alone=False, steps=3, threads=2, changes=None):
    """One run in this process, which must not have used CUDA before. `kind`: plain, trace, annotate.

    `changes` replaces settings of the case.
    """
    import torch

    from cases import CASES, MODELS

    torch.set_num_threads(threads)
    case = replace(CASES[case_name], **(changes or {}))
    if tiny:
        case = replace(case, batch=2, seq=8 if case.seq else None)
    result = {"case": case.name, "model": case.model, "part": MODELS[case.model].part, "settings": case.settings()}
    tracer = None
    if device == "cuda":
        torch.cuda.init()
        if cap:
            result.update(set_cap(cap))
        if kind != "plain":
            from trace_events import Tracer

            tracer = Tracer()
    from meter import Meter

    phase = Meter(device, tracer, alone)
    try:
        run(case, MODELS[case.model], device, tiny, kind, phase, steps)
    except RuntimeError as error:
        if not cap:
            raise
        result["died"] = {"type": type(error).__name__, "text": str(error)[:600], "stats": small_stats()}
        if tracer:
            phase.final["trace"] = tracer.finish()
    result.update(phase.peaks(), phases=phase.phases, **phase.final)
    return result


def small_stats():
    import torch

    stats = torch.cuda.memory_stats()
    keys = ("num_alloc_retries", "num_ooms", "allocated_bytes.all.peak", "reserved_bytes.all.peak")
    return {key: stats.get(key) for key in keys}


def run(case, model_entry, device, tiny, kind, phase, steps):
    """Builds as the protocol says, then goes through the steps."""
    import deepspeed_rank
    import torch
    from case_optimizers import make_optimizers
    from deepspeed_rank import is_deepspeed
    from loop import evaluate, loss_of, train
    from memory_tricks import average, freeze, replace_loss, with_channels_last
    from settings import apply_checkpointing
    from spread import begin, is_spread, optimizers, spread

    from cases import DTYPES, loss_function, make_inputs

    model = model_entry.build("cpu", tiny, **({"fused": True} if case.fused_attention else {}))
    if DTYPES[case.dtype] is not None:
        model = model.to(DTYPES[case.dtype])
    inputs, targets = make_inputs(model_entry, case, tiny)
    if case.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = {name: with_channels_last(tensor) for name, tensor in inputs.items()}
    if not is_spread(case):
        model = model.to(device)
    model.train(case.mode == "train")
    freeze(model, case.freeze)
    apply_checkpointing(model, case.checkpoint, case.checkpoint_save)
    replace_loss(model, case.chunked_loss, case.fused_linear_loss)
    if is_spread(case):
        begin(case, device)
        model = deepspeed_rank.engine(model, case) if is_deepspeed(case) else spread(model, case, device)
    if case.inputs == "kept":
        inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
        targets = targets.to(device) if targets is not None else None
    annotator = None
    if kind == "annotate" and device == "cuda":
        from annotate import Annotator

        annotator = Annotator(model)
    function = loss_function(model_entry)
    if case.mode == "eval":
        phase(None, "build", None)
        evaluate(case, model, inputs, targets, function, device, phase, steps)
        return
    if is_deepspeed(case):
        phase(None, "build", None)
        deepspeed_rank.train(case, model, inputs, targets, loss_of, function, device, phase, steps)
        return
    made = optimizers(case, model) or make_optimizers(case, model)
    averaged = average(model, case.ema)
    phase(None, "build", None)
    before_backward = annotator.before_backward if annotator else None
    train(case, model, inputs, targets, function, made, device, phase, steps, before_backward, averaged)


def environment(device):
    """Asked in a process of its own, for the parent must not touch CUDA."""
    import torch
    import torchvision
    import transformers

    facts = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts.update(
            gpu=properties.name,
            compute_capability=f"{properties.major}.{properties.minor}",
            multiprocessors=properties.multi_processor_count,
            total_memory=properties.total_memory,
            mem_get_info_total=torch.cuda.mem_get_info(0)[1],
            cudnn=torch.backends.cudnn.version(),
        )
    return facts


def write_json(value, path):
    text = json.dumps(value, separators=(",", ":"))
    if str(path).endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    else:
        path.write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", required=True)
    parser.add_argument("--runs", type=int, default=1, help="repetitions, for the spread of peak_reserved")
    parser.add_argument("--trace", action="store_true", help="record the allocator's events")
    parser.add_argument("--annotate", action="store_true", help="a trace with module and autograd node names")
    parser.add_argument("--cap-mib", type=int, help="what PyTorch may reserve")
    parser.add_argument("--alone", action="store_true", help="nothing else runs on the GPU: ask mem_get_info too")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch on the CPU; each leaves its mark on the addresses")
    parser.add_argument("--here", action="store_true", help="one run in this process, not in a fork that has imported all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    kind = "annotate" if given.annotate else "trace" if given.trace else "plain"
    arguments = {
        "case_name": given.case,
        "device": given.device,
        "tiny": given.tiny,
        "kind": kind,
        "cap": given.cap_mib * MIB if given.cap_mib else None,
        "alone": given.alone,
        "steps": given.steps,
        "threads": given.threads,
    }
    job = {"call": "measure:measure", "arguments": arguments}
    if given.here:
        runs = [fork_pool.call(job)]
    else:
        imports()
        jobs = [{"name": str(number), **job} for number in range(given.runs)]
        runs = list(fork_pool.run(jobs, 1, 300, given.device).values())
    result = runs[0] if given.runs == 1 else {"case": given.case, "runs": runs}
    if given.out:
        write_json(result, given.out)
    else:
        json.dump(result, sys.stdout, indent=1)
    return 1 if any("error" in run for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
