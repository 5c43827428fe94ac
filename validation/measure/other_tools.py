"""What other tools say of the ranks that were measured: PyTorch's FSDPMemTracker, and the estimators of DeepSpeed.

    python3 validation/measure/other_tools.py tracker      # on a GPU; one process for each case of FSDP2
    python3 validation/measure/other_tools.py fake-tracker # anywhere: on the CPU, with fake tensors
    python3 validation/measure/other_tools.py estimator    # anywhere with DeepSpeed

Each prints lines for validation/measured/other-tools.jsonl (`| grep '^{'` drops what DeepSpeed logs); other_tools_simumax.py asks SimuMax, other_tools_table.py makes the tables of
docs/several-gpus.md.

FSDPMemTracker follows a real step and gives the most bytes that were active; DeepSpeed's estimators compute from the number of weights.
"""

import argparse
import json
import sys
import traceback
from pathlib import Path

import fork_pool

fork_pool.prepare_environment()

HERE = Path(__file__).parent


def tracked_cases(cases):
    is_plain = lambda case: (case.accumulate, case.inputs, case.cpu_offload) == (1, "kept", False)  # noqa: E731
    return [case for case in cases.values() if case.parallel == "fsdp2" and case.name.startswith("fsdp2-") and is_plain(case)]


def tracked_with_fakes(case_name):
    """The same without a GPU. `fully_shard` asks the driver for the current GPU, so that the mesh, and with it the tensors, are of the CPU."""
    import torch.distributed as dist
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed import device_mesh
    from torch.utils._python_dispatch import _disable_current_modes

    make_mesh = device_mesh.init_device_mesh

    def make_real_mesh(*sizes, **names):
        # A mesh reads the numbers of ranks from a tensor, and a fake one has none.
        with _disable_current_modes():
            return make_mesh(*sizes, **names)

    device_mesh.init_device_mesh = make_real_mesh
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return tracked(case_name, "cpu")
    finally:
        device_mesh.init_device_mesh = make_mesh
        if dist.is_initialized():
            dist.destroy_process_group()


def converted(model, dtype):
    """`model.to(dtype)`, which fails with fake weights: weak references to them exist."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if not any(isinstance(weight, FakeTensor) for weight in model.parameters()):
        return model.to(dtype)
    new = {}  # with the weight itself, whose id is another's when it is gone
    for module in model.modules():
        for name, weight in module.named_parameters(recurse=False):
            if id(weight) not in new:
                new[id(weight)] = weight, torch.nn.Parameter(weight.detach().to(dtype), weight.requires_grad)
            setattr(module, name, new[id(weight)][1])
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                setattr(module, name, buffer.to(dtype))
    return model


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
        model = converted(model, DTYPES[case.dtype])
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
    yield from (("FSDPMemTracker on an H200", name, answer.get("peak") or answer.get("error")) for name, answer in answers.items())


def track_fakes(given):
    from cases import CASES

    for case in tracked_cases(CASES)[: given.first]:
        try:
            peak = tracked_with_fakes(case.name)["peak"]
        except Exception as error:  # a tool that cannot is reported, not hidden
            traceback.print_exc()
            peak = f"{type(error).__name__}: {error}".splitlines()[0]
        yield "FSDPMemTracker without a GPU", case.name, peak


def estimate(_):
    """DeepSpeed's formulas; the weights of a model are the same in any type to them."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    from cases import CASES, MODELS

    for case in CASES.values():
        if case.parallel not in ("deepspeed:2", "deepspeed:3"):
            continue
        model = MODELS[case.model].build("meta")
        weights = sum(weight.numel() for weight in model.parameters())
        offloads = case.optimizer_state == "cpu"
        if case.parallel == "deepspeed:2":
            yield "estimate_zero2_model_states_mem_needs", case.name, estimate_zero2_model_states_mem_needs(weights, case.world, 1, offloads)[1]
            continue
        largest = max(sum(weight.numel() for weight in module.parameters(recurse=False)) for module in model.modules())
        needed = estimate_zero3_model_states_mem_needs(weights, largest, case.world, 1, offloads, case.cpu_offload, zero_init=False)
        yield "estimate_zero3_model_states_mem_needs", case.name, needed[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ways = {"tracker": track, "fake-tracker": track_fakes, "estimator": estimate}
    parser.add_argument("what", choices=list(ways))
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--first", type=int, help="only so many cases")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, for a CPU")
    given = parser.parse_args()
    for tool, case, peak in ways[given.what](given):
        print(json.dumps({"tool": tool, "case": case, "peak": int(peak) if isinstance(peak, (int, float)) else peak}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
