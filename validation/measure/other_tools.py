"""What other tools say of the ranks that were measured: PyTorch's FSDPMemTracker, and the estimator of DeepSpeed.

    python3 validation/measure/other_tools.py tracker --out tracker.json     # on a GPU; one process for each case of FSDP2 in fp32 or bf16
    python3 validation/measure/other_tools.py estimator --out estimator.json # anywhere with DeepSpeed
    python3 validation/measure/other_tools.py table tracker.json estimator.json

FSDPMemTracker follows a real step and gives the most bytes that were active; DeepSpeed's estimator computes from the number of weights.
"""

import argparse
import gzip
import json
import statistics
import sys
from pathlib import Path

import fork_pool

fork_pool.prepare_environment()

HERE = Path(__file__).parent


def tracked_cases(cases):
    is_plain = lambda case: (case.accumulate, case.inputs, case.cpu_offload) == (1, "kept", False)  # noqa: E731
    return [case for case in cases.values() if case.parallel == "fsdp2" and case.name.startswith("fsdp2-") and is_plain(case)]


def tracked(case_name, device="cuda", tiny=False):
    """Two steps under FSDPMemTracker, as its own test runs it."""
    from dataclasses import replace

    import torch
    from case_optimizers import make_optimizers
    from loop import loss_of
    from settings import apply_checkpointing, autocast
    from spread import begin, spread
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker

    from cases import CASES, DTYPES, MODELS, loss_function, make_inputs

    case = CASES[case_name]
    if tiny:
        case = replace(case, batch=2, seq=8 if case.seq else None)
    entry = MODELS[case.model]
    model = entry.build("cpu", tiny)
    if DTYPES[case.dtype] is not None:
        model = model.to(DTYPES[case.dtype])
    inputs, targets = make_inputs(entry, case, tiny)
    model.train()
    apply_checkpointing(model, case.checkpoint, case.checkpoint_save)
    begin(case, device)
    model = spread(model, case, device)
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    targets = targets.to(device) if targets is not None else None
    (optimizer,) = make_optimizers(case, model)
    function = loss_function(entry)
    tracker = FSDPMemTracker(model, optimizer)
    tracker.track_inputs((inputs, targets))
    with tracker:
        for step in range(2):
            with autocast(case.amp, device):
                loss = loss_of(model(**inputs), targets, function)
            loss.backward()
            if case.clip_grad:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step == 0:
                tracker.reset_mod_stats()
    peak = tracker.get_tracker_snapshot("peak")
    return {"case": case_name, "peak": max(parts["Total"] for parts in peak.values())}


def track(given):
    import measure

    from cases import CASES

    measure.imports()
    arguments = {"device": given.device, "tiny": given.tiny}
    wanted = tracked_cases(CASES)[: given.first]
    jobs = [
        {"name": case.name, "call": "other_tools:tracked", "arguments": {"case_name": case.name, **arguments}}
        for case in wanted
    ]
    answers = fork_pool.run(jobs, given.jobs, 150, given.device)
    return {name: answer.get("peak") or answer.get("error") for name, answer in answers.items()}


def estimate(_):
    """DeepSpeed's formulas; the weights of a model are the same in any type to them."""
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    from cases import CASES, MODELS

    found = {}
    for case in CASES.values():
        if case.parallel == "deepspeed:2":
            weights = sum(weight.numel() for weight in MODELS[case.model].build("meta").parameters())
            offloads = case.optimizer_state == "cpu"
            found[case.name] = estimate_zero2_model_states_mem_needs(weights, case.world, 1, offloads)[1]
    return found


def table(files):
    measured = json.load(gzip.open(HERE.parent / "measured" / "measured.json.gz"))["cases"]
    for file in files:
        errors = []
        for name, peak in sorted(json.loads(Path(file).read_text()).items()):
            if name not in measured or not isinstance(peak, int):
                print(f"{name:36} {peak}")
                continue
            truth = measured[name]["peak_allocated"]
            errors.append(100 * (peak - truth) / truth)
            print(f"{name:36} measured {truth / 2**20:8.1f} MiB  said {peak / 2**20:8.1f} MiB  {errors[-1]:+7.2f} %")
        if errors:
            sizes = [abs(error) for error in errors]
            print(f"{file}: {len(errors)} cases, median error {statistics.median(sizes):.1f} %, worst {max(sizes):.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["tracker", "estimator", "table"])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--first", type=int, help="only so many cases")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    given = parser.parse_args()
    if given.what == "table":
        return table(given.files)
    found = (track if given.what == "tracker" else estimate)(given)
    text = json.dumps(found, indent=1)
    given.out.write_text(text + "\n") if given.out else print(text)


if __name__ == "__main__":
    sys.exit(main())
