"""One rank of trainings on several GPUs."""

import random
from dataclasses import replace

from cases.case import Case

WORLDS = (2, 3, 4, 8, 16, 64)


def ddp():
    return [
        Case("ddp-residual", "residual", 511, parallel="ddp", world=2),
        Case("ddp-residual-views", "residual", 511, parallel="ddp", world=4, gradient_as_bucket_view=True),
        Case("ddp-bert-small", "bert-small", 16, 128, parallel="ddp", world=8),
        Case("ddp-gpt2-small", "gpt2-small", 4, 256, parallel="ddp", world=2),
        Case("ddp-gpt2-small-amp", "gpt2-small", 4, 256, amp="bf16", parallel="ddp", world=8),
        Case("ddp-gpt2-small-views", "gpt2-small", 3, 77, parallel="ddp", world=16, gradient_as_bucket_view=True, optimizer="sgd"),
        Case("ddp-gpt2", "gpt2", 2, 256, parallel="ddp", world=4),
        Case("ddp-llama-small-bf16", "llama-small", 4, 256, dtype="bf16", parallel="ddp", world=4),
        Case("ddp-llama-small-accumulate", "llama-small", 2, 128, accumulate=3, parallel="ddp", world=2),
        Case("ddp-llama-small-sync", "llama-small", 2, 128, accumulate=2, parallel="ddp", world=2, no_sync="false"),
        Case(
            "ddp-llama-checkpoint", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", parallel="ddp", world=64, gradient_as_bucket_view=True
        ),
        Case("ddp-resnet18", "resnet18", 16, optimizer="momentum", parallel="ddp", world=2),
        Case("ddp-resnet50-amp", "resnet50", 12, amp="fp16", optimizer="momentum", parallel="ddp", world=8),
        Case("ddp-gpt2-small-static", "gpt2-small", 4, 256, parallel="ddp", world=2, static_graph=True),
        Case("ddp-residual-static-views", "residual", 511, parallel="ddp", world=4, static_graph=True, gradient_as_bucket_view=True),
        Case("ddp-bert-small-static-sync", "bert-small", 16, 128, accumulate=2, parallel="ddp", world=2, static_graph=True, no_sync="false"),
        Case("ddp-resnet18-static", "resnet18", 16, optimizer="momentum", parallel="ddp", world=2, static_graph=True, amp="bf16"),
        Case("ddp-t5", "t5", 8, 128, parallel="ddp", world=2, clip_grad=True),
    ]


def zero1():
    return [
        Case("zero1-residual", "residual", 511, parallel="zero1", world=2),
        Case("zero1-gpt2-small", "gpt2-small", 4, 256, parallel="zero1", world=4),
        Case("zero1-llama-small-bf16", "llama-small", 4, 256, dtype="bf16", parallel="zero1", world=8),
    ]


def deepspeed():
    small = {"reduce_bucket_size": 5_000_000}
    return [
        Case("ds1-residual", "residual", 511, parallel="deepspeed:1", world=2),
        Case("ds1-gpt2-small-bf16", "gpt2-small", 4, 256, dtype="bf16", parallel="deepspeed:1", world=4, **small),
        Case("ds1-llama-small-fp16", "llama-small", 4, 256, dtype="fp16", parallel="deepspeed:1", world=8),
        Case("ds1-llama-small-accumulate", "llama-small", 2, 128, dtype="bf16", accumulate=3, parallel="deepspeed:1", world=2, **small),
        Case("ds1-bert-small-clip", "bert-small", 16, 128, clip_grad=True, parallel="deepspeed:1", world=16, **small),
        Case("ds1-gpt2-small-overlap", "gpt2-small", 4, 256, dtype="bf16", parallel="deepspeed:1", world=4, overlap_comm="true", **small),
        Case("ds1-gpt2-small-offload", "gpt2-small", 4, 256, dtype="bf16", optimizer_state="cpu", parallel="deepspeed:1", world=4, **small),
        Case("ds2-residual", "residual", 511, parallel="deepspeed:2", world=2),
        Case("ds2-residual-odd", "residual", 511, optimizer="sgd", parallel="deepspeed:2", world=7, **small),
        Case("ds2-gpt2-small-bf16", "gpt2-small", 4, 256, dtype="bf16", parallel="deepspeed:2", world=4, **small),
        Case("ds2-gpt2-small-fp16", "gpt2-small", 4, 256, dtype="fp16", parallel="deepspeed:2", world=2),
        Case("ds2-gpt2-bf16", "gpt2", 2, 256, dtype="bf16", parallel="deepspeed:2", world=8),
        Case("ds2-llama-small-accumulate", "llama-small", 2, 128, dtype="bf16", accumulate=3, parallel="deepspeed:2", world=2, **small),
        Case("ds2-llama-checkpoint", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", parallel="deepspeed:2", world=64, clip_grad=True),
        Case("ds2-llama-1b", "llama-1b", 1, 512, dtype="bf16", parallel="deepspeed:2", world=8, reduce_bucket_size=50_000_000),
        Case("ds2-bert-small", "bert-small", 16, 128, parallel="deepspeed:2", world=16, **small),
        Case("ds2-bert-small-fused", "bert-small", 16, 128, dtype="bf16", optimizer_impl="fused", parallel="deepspeed:2", world=4),
        Case("ds2-resnet18", "resnet18", 16, optimizer="momentum", parallel="deepspeed:2", world=2, **small),
        Case("ds2-vit-fresh", "vit-b-16", 4, dtype="bf16", inputs="fresh", parallel="deepspeed:2", world=3),
        Case("ds2-t5-overlap", "t5", 8, 128, dtype="bf16", parallel="deepspeed:2", world=4, overlap_comm="true", **small),
        Case("ds2-gpt2-small-offload", "gpt2-small", 4, 256, dtype="bf16", optimizer_state="cpu", parallel="deepspeed:2", world=4, **small),
        Case("ds2-gpt2-small-offload-accumulate", "gpt2-small", 2, 128, dtype="bf16", optimizer_state="cpu", accumulate=2, parallel="deepspeed:2", world=4),
        Case("ds3-residual", "residual", 511, parallel="deepspeed:3", world=2),
        Case("ds3-residual-serial", "residual", 511, parallel="deepspeed:3", world=4, overlap_comm="false", **small),
        Case("ds3-gpt2-small-bf16", "gpt2-small", 4, 256, dtype="bf16", parallel="deepspeed:3", world=4, **small),
        Case("ds3-llama-small-accumulate", "llama-small", 2, 128, dtype="bf16", accumulate=2, parallel="deepspeed:3", world=2, **small),
        Case("ds3-llama-checkpoint", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", parallel="deepspeed:3", world=8, clip_grad=True),
        Case("ds3-llama-1b", "llama-1b", 1, 512, dtype="bf16", parallel="deepspeed:3", world=8, reduce_bucket_size=50_000_000),
        Case("ds3-gpt2-small-offload", "gpt2-small", 4, 256, dtype="bf16", optimizer_state="cpu", parallel="deepspeed:3", world=4, **small),
        Case("ds2-gpt2-small-unclipped", "gpt2-small", 4, 256, dtype="bf16", gradient_clipping="false", parallel="deepspeed:2", world=4, **small),
        Case("ds3-gpt2-small-unclipped", "gpt2-small", 4, 256, dtype="fp16", gradient_clipping="false", parallel="deepspeed:3", world=4, **small),
        Case("ds3-gpt2-small-freed", "gpt2-small", 4, 256, dtype="bf16", stage3="max_reuse_distance=0,prefetch_bucket_size=0", parallel="deepspeed:3", world=4, **small),
        Case("ds3-llama-small-ahead", "llama-small", 2, 128, dtype="bf16", stage3="max_reuse_distance=0,prefetch_bucket_size=1000000,max_live_parameters=3000000", parallel="deepspeed:3", world=2, **small),
        Case("ds3-residual-persistent", "residual", 511, stage3="max_reuse_distance=100000,param_persistence_threshold=10000", parallel="deepspeed:3", world=2, **small),
        Case("ds3-llama-1b-near", "llama-1b", 1, 512, dtype="bf16", stage3="max_reuse_distance=100000000,prefetch_bucket_size=10000000", parallel="deepspeed:3", world=8, reduce_bucket_size=50_000_000),
        *offloaded_weights(small),
    ]


def offloaded_weights(small):
    """`offload_param`, with and without `offload_optimizer`."""
    both = {"optimizer_state": "cpu", "cpu_offload": True}
    return [
        Case("ds3-residual-weights-offload", "residual", 511, cpu_offload=True, parallel="deepspeed:3", world=2, **small),
        Case("ds3-gpt2-small-weights-offload", "gpt2-small", 4, 256, dtype="bf16", cpu_offload=True, parallel="deepspeed:3", world=4, **small),
        Case("ds3-gpt2-small-all-offload", "gpt2-small", 4, 256, dtype="bf16", **both, parallel="deepspeed:3", world=4, **small),
        Case("ds3-llama-small-all-offload", "llama-small", 2, 128, dtype="bf16", accumulate=2, **both, parallel="deepspeed:3", world=3, **small),
        Case("ds3-llama-1b-all-offload", "llama-1b", 1, 512, dtype="bf16", **both, parallel="deepspeed:3", world=8, reduce_bucket_size=50_000_000),
    ]


def fsdp2():
    mixed = {"param_dtype": "bf16", "reduce_dtype": "fp32"}
    return [
        Case("fsdp2-residual", "residual", 511, parallel="fsdp2", world=2),
        Case("fsdp2-residual-kept", "residual", 511, parallel="fsdp2", world=4, reshard_after_forward="false"),
        Case("fsdp2-residual-two", "residual", 511, parallel="fsdp2", world=8, reshard_after_forward="2"),
        Case("fsdp2-residual-root", "residual", 511, parallel="fsdp2", world=4, shard="none", optimizer="sgd"),
        Case("fsdp2-residual-odd", "residual", 100, parallel="fsdp2", world=7),
        Case("fsdp2-residual-offload", "residual", 511, parallel="fsdp2", world=4, cpu_offload=True),
        Case("fsdp2-residual-clip", "residual", 511, parallel="fsdp2", world=4, clip_grad=True),
        Case("fsdp2-residual-checkpoint", "residual", 2000, checkpoint="blocks.0,blocks.3,blocks.7", parallel="fsdp2", world=4),
        Case("fsdp2-residual-fp16", "residual", 511, dtype="fp16", parallel="fsdp2", world=8, optimizer="momentum"),
        Case("fsdp2-bert-small", "bert-small", 16, 128, parallel="fsdp2", world=4),
        Case("fsdp2-bert-small-mixed", "bert-small", 16, 128, parallel="fsdp2", world=4, **mixed),
        Case("fsdp2-bert-small-amp", "bert-small", 16, 128, amp="bf16", parallel="fsdp2", world=2),
        Case("fsdp2-gpt2-small", "gpt2-small", 4, 256, parallel="fsdp2", world=2),
        Case("fsdp2-gpt2-small-mixed", "gpt2-small", 4, 256, parallel="fsdp2", world=8, **mixed),
        Case("fsdp2-gpt2-small-amp", "gpt2-small", 4, 256, amp="bf16", parallel="fsdp2", world=8),
        Case("fsdp2-gpt2-small-kept", "gpt2-small", 4, 256, parallel="fsdp2", world=8, reshard_after_forward="false", **mixed),
        Case("fsdp2-gpt2-small-accumulate", "gpt2-small", 4, 256, accumulate=2, parallel="fsdp2", world=4, **mixed),
        Case("fsdp2-gpt2-small-no-sync", "gpt2-small", 4, 256, accumulate=3, parallel="fsdp2", world=4, no_sync="true", **mixed),
        Case("fsdp2-llama-small", "llama-small", 4, 256, parallel="fsdp2", world=4),
        Case("fsdp2-llama-small-bf16", "llama-small", 4, 256, dtype="bf16", parallel="fsdp2", world=64),
        Case("fsdp2-llama-small-mixed", "llama-small", 4, 256, parallel="fsdp2", world=16, **mixed),
        Case("fsdp2-llama-small-reduce-bf16", "llama-small", 4, 256, parallel="fsdp2", world=4, param_dtype="bf16"),
        Case("fsdp2-llama-small-fused", "llama-small", 3, 77, parallel="fsdp2", world=4, optimizer_impl="fused", **mixed),
        Case("fsdp2-llama-checkpoint", "llama-no-cache", 4, 256, checkpoint="blocks", parallel="fsdp2", world=8, **mixed),
        Case("fsdp2-llama-checkpoint-bf16", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", parallel="fsdp2", world=4),
        Case("fsdp2-gpt2-checkpoint", "gpt2-no-cache", 4, 256, checkpoint="blocks", parallel="fsdp2", world=4),
        Case("fsdp2-llama-1b", "llama-1b", 1, 512, dtype="bf16", parallel="fsdp2", world=8),
        Case("fsdp2-gpt2", "gpt2", 2, 256, parallel="fsdp2", world=4, **mixed),
        Case("fsdp2-gpt2-offload", "gpt2-small", 2, 256, parallel="fsdp2", world=4, cpu_offload=True, **mixed),
        Case("fsdp2-t5", "t5", 8, 128, parallel="fsdp2", world=2),
        Case("fsdp2-resnet18", "resnet18", 16, optimizer="momentum", parallel="fsdp2", world=2),
        Case("fsdp2-vit", "vit-b-16", 4, parallel="fsdp2", world=4),
        # Blocks within blocks.
        Case("fsdp2-resnet-hf", "resnet-hf", 16, parallel="fsdp2", world=4),
        Case("hsdp-resnet-hf", "resnet-hf", 16, parallel="hsdp:2x2", world=4, reshard_after_forward="true"),
        Case("hsdp-gpt2-small", "gpt2-small", 4, 256, parallel="hsdp:2x4", world=8, **mixed),
        Case("hsdp-llama-small", "llama-small", 4, 256, parallel="hsdp:2x2", world=4),
        Case("hsdp-residual", "residual", 511, parallel="hsdp:4x8", world=32),
    ]


def tp():
    return [
        Case("tp-llama-small", "llama-small", 4, 256, parallel="tp", world=2),
        Case("tp-llama-small-bf16", "llama-small", 4, 256, dtype="bf16", parallel="tp", world=4),
        Case("tp-llama-small-amp", "llama-small", 4, 256, amp="bf16", parallel="tp", world=2),
        Case("tp-llama-small-accumulate", "llama-small", 2, 128, accumulate=2, parallel="tp", world=2),
        Case("tp-llama-small-fused", "llama-small", 3, 77, optimizer_impl="fused", parallel="tp", world=2),
        Case("tp-llama-small-sgd", "llama-small", 3, 77, optimizer="sgd", parallel="tp", world=2),
        Case("tp-llama-checkpoint", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", parallel="tp", world=2),
        Case("tp-llama-eager", "llama-eager", 4, 128, parallel="tp", world=2),
        Case("tp-llama-gqa", "llama-gqa", 4, 128, parallel="tp", world=2),
        Case("tp-llama-1b", "llama-1b", 1, 512, dtype="bf16", parallel="tp", world=8),
        Case("tp-qwen2", "qwen2", 2, 128, parallel="tp", world=2),
        Case("tp-qwen3", "qwen3", 4, 128, parallel="tp", world=4),
        Case("tp-mistral", "mistral", 4, 200, dtype="bf16", parallel="tp", world=2),
        Case("tp-gemma2", "gemma2", 4, 128, parallel="tp", world=2),
        Case("tp-phi", "phi", 4, 128, parallel="tp", world=4),
        Case("tp-bert-small", "bert-small", 16, 128, parallel="tp", world=2),
        Case("tp-bert-small-three", "bert-small", 16, 128, parallel="tp", world=3),
        Case("tp-bert-eager", "bert-eager", 8, 128, parallel="tp", world=2),
        Case("tp-roberta", "roberta", 8, 128, parallel="tp", world=5),
        Case("tp-vit-hf", "vit-hf", 8, parallel="tp", world=2),
        Case("tp-opt", "opt", 4, 128, parallel="tp", world=2),
        Case("tp-bart", "bart", 4, 128, parallel="tp", world=2),
    ]


def drawn_settings(draw, base, is_transformer):
    """How one drawn case is spread, and what else it does."""
    settings = {"world": draw.choice(WORLDS), "parallel": draw.choices(("fsdp2", "ddp", "hsdp", "zero1"), (10, 5, 3, 2))[0]}
    if draw.random() < 0.25:
        settings["accumulate"] = draw.choice((2, 3))
        settings["no_sync"] = draw.choice(("default", "true", "false"))
    if draw.random() < 0.2:
        settings["clip_grad"] = True
    if is_transformer and draw.random() < 0.25:
        settings["checkpoint"] = "blocks"
    if settings["parallel"] == "zero1":
        return settings
    settings["optimizer"] = draw.choices(("adamw", "sgd", "momentum", "adagrad"), (6, 1, 2, 1))[0]
    if settings["optimizer"] == "adamw":
        settings["optimizer_impl"] = draw.choices(("default", "fused", "for-loop"), (7, 2, 1))[0]
    if settings["parallel"] == "ddp":
        settings["gradient_as_bucket_view"] = draw.random() < 0.3
        return settings
    shards = settings["world"]
    if settings["parallel"] == "hsdp":
        copies, shards = draw.choice((2, 4)), draw.choice((2, 4, 8))
        settings.update(parallel=f"hsdp:{copies}x{shards}", world=copies * shards)
    settings["reshard_after_forward"] = draw.choices(("default", "true", "false"), (6, 1, 2))[0]
    if shards in (4, 8, 16, 64) and draw.random() < 0.1:
        settings["reshard_after_forward"] = "2"
    if base.dtype == "fp32" and base.amp == "none" and draw.random() < 0.5:
        settings["param_dtype"] = "bf16"
        settings["reduce_dtype"] = draw.choice(("none", "fp32"))
    settings["cpu_offload"] = draw.random() < 0.1
    settings["shard"] = draw.choices(("blocks", "none"), (9, 1))[0]
    return settings


def plain_cases(known, models):
    """Cases on one GPU with nothing but a model, its sizes and types."""
    return [
        case
        for case in known
        if models[case.model].part in (1, 2)
        and (case.mode, case.accumulate, case.checkpoint, case.inputs, case.zero_grad) == ("train", 1, "none", "kept", "before-forward")
        and (case.freeze, case.chunked_loss, case.offload_activations, case.fused_linear_loss) == ("", 0, "none", "none")
        and not (case.ema or case.step_in_backward or case.optimizer_groups)
        and case.dtype in ("fp32", "bf16")
        and case.amp in ("none", "bf16")
    ]


def drawn(known, models, count=80, seed=23):
    """Cases drawn at random from models and sizes that were measured on one GPU."""
    draw = random.Random(seed)
    plain = plain_cases(known, models)
    for number in range(count):
        base = draw.choice(plain)
        settings = drawn_settings(draw, base, "architecture" in models[base.model].arguments)
        kept = {"optimizer": "adamw", "optimizer_impl": "default", "optimizer_state": "gpu", "clip_grad": False, "set_to_none": True}
        yield replace(base, name=f"drawn-{number:02}", **{**kept, **settings})


def drawn_zero(known, models, stages, prefix, count, seed):
    """Cases of DeepSpeed drawn at random, from models and sizes that were measured on one GPU."""
    draw = random.Random(seed)
    plain = plain_cases(known, models)
    for number in range(count):
        base = draw.choice(plain)
        is_transformer = "architecture" in models[base.model].arguments
        yield Case(
            f"{prefix}-{number:02}",
            base.model,
            base.batch,
            base.seq,
            parallel=f"deepspeed:{draw.choice(stages)}",
            world=draw.choice(WORLDS),
            dtype=draw.choice(("fp32", "bf16", "bf16", "fp16")) if is_transformer else base.dtype,
            accumulate=draw.choice((1, 1, 1, 2, 3)),
            checkpoint="blocks" if is_transformer and draw.random() < 0.25 else "none",
            optimizer=draw.choice(("adamw", "adamw", "adamw", "sgd", "momentum", "adagrad")),
            optimizer_impl=draw.choice(("default", "default", "default", "for-loop")),
            optimizer_state=draw.choice(("gpu", "gpu", "gpu", "cpu")),
            reduce_bucket_size=draw.choice((100_000, 2_000_000, 20_000_000, 200_000_000, 500_000_000)),
            overlap_comm=draw.choice(("default", "default", "true", "false")),
            inputs=draw.choice(("kept", "kept", "fresh")),
        )


# Models whose layers tensor parallelism splits by their names.
SPLIT = (
    "bert-small,bert-padding,bert-eager,bert-mlm,bert-base,roberta,distilbert,electra,opt,llama-small,llama-no-cache,llama-gqa,llama-eager,llama-1b,"
    "mistral,qwen2,qwen3,phi,vit-hf,whisper,bert-large,roberta-base,distilbert-base,electra-mlm,opt-125m,llama-160m,qwen2-0.5b,qwen3-0.6b,"
    "gemma-wide,phi-1,mistral-window,bart,gemma2,deit"
).split(",")


def divides(config, world):
    """Whether all GPUs get the same number of heads and columns."""
    heads = [size for key, size in config.items() if key.endswith(("heads", "intermediate_size", "ffn_dim", "hidden_dim")) or key in ("dim", "hidden_size")]
    return all(size % world == 0 for size in heads)


def drawn_split(known, models, count=40, seed=24):
    """Cases of tensor parallelism drawn at random, from models and sizes that were measured on one GPU."""
    draw = random.Random(seed)
    for number in range(count):
        model = draw.choice(SPLIT)
        base = draw.choice([case for case in known if case.model == model and case.mode == "train" and case.parallel == "none"])
        config = models[base.model].arguments["config"][1]
        worlds = [world for world in (2, 3, 4, 5, 6, 7, 8) if divides(config, world)]
        dtype = draw.choice(("fp32", "fp32", "bf16"))
        yield Case(
            f"drawn-tp-{number:02}",
            base.model,
            base.batch,
            base.seq,
            parallel="tp",
            world=draw.choice(worlds or [2]),
            dtype=dtype,
            amp="bf16" if dtype == "fp32" and draw.random() < 0.3 else "none",
            accumulate=draw.choice((1, 1, 1, 2, 3)),
            checkpoint="blocks" if draw.random() < 0.3 else "none",
            optimizer=draw.choice(("adamw", "adamw", "sgd", "momentum")),
        )


def cases():
    return [*ddp(), *zero1(), *deepspeed(), *fsdp2(), *tp()]
