"""One rank of a training with DeepSpeed: its own engine on the fake process group of spread.py."""

import os

from case_optimizers import make_optimizer


def is_deepspeed(case):
    return case.parallel.startswith("deepspeed:")


def config(case):
    """The configuration file a user would write for this case."""
    stage = int(case.parallel.removeprefix("deepspeed:"))
    zero = {"stage": stage, "reduce_bucket_size": case.reduce_bucket_size}
    if case.overlap_comm != "default":
        zero["overlap_comm"] = case.overlap_comm == "true"
    for pair in filter(None, case.stage3.split(",")):
        key, elements = pair.split("=")
        zero[f"stage3_{key}"] = int(elements)
    if case.optimizer_state == "cpu":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    if case.cpu_offload:
        zero["offload_param"] = {"device": "cpu", "pin_memory": True}
    made = {
        "train_micro_batch_size_per_gpu": case.batch,
        "gradient_accumulation_steps": case.accumulate,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if case.dtype in ("bf16", "fp16"):
        made[case.dtype] = {"enabled": True}
    if case.amp != "none":
        made["torch_autocast"] = {"enabled": True, "dtype": {"bf16": "bfloat16", "fp16": "float16"}[case.amp]}
    if case.clip_grad or case.gradient_clipping != "default":
        made["gradient_clipping"] = 0.0 if case.gradient_clipping == "false" else 1.0
    return made


def engine(model, case):
    """The engine: it moves the model to the GPU and spreads the optimizer that it is given."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(case.world))
    import deepspeed

    optimizer = make_optimizer(case.optimizer, case.optimizer_impl, [weight for weight in model.parameters() if weight.requires_grad])
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config(case), dist_init_required=False)[0]


def train(case, engine, inputs, targets, loss_of, function, device, phase, steps=3):
    """The loop of DeepSpeed's documentation. The engine counts micro-batches, scales the loss and clears gradients itself."""
    given, wanted = inputs, targets
    kept = case.inputs == "kept"
    if not kept:
        inputs = targets = None
    for step in range(steps):
        for micro in range(case.accumulate):
            if not kept:
                inputs = {name: tensor.to(device) for name, tensor in given.items()}
                targets = wanted.to(device) if wanted is not None else None
            outputs = engine(**inputs)
            loss = loss_of(outputs, targets, function)
            phase(step, "forward", micro)
            engine.backward(loss)
            phase(step, "backward", micro)
            engine.step()
        phase(step, "step", None)
    phase.end()
