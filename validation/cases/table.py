"""Every measured case: which model, under which settings."""

from cases.case import Case


def families():
    """Each family once or twice at plain settings, odd sizes among them."""
    return [
        Case("mlp-relu", "mlp-relu", 128, optimizer="sgd"),
        Case("mlp-relu-large", "mlp-relu", 8192, optimizer="adam"),
        Case("mlp-inplace", "mlp-inplace", 4096, optimizer="momentum"),
        Case("mlp-odd", "mlp-odd", 1003),
        Case("mlp-odd-one", "mlp-odd", 1),
        Case("mlp-activations", "mlp-activations", 3001, optimizer="adam"),
        Case("mlp-no-bias", "mlp-no-bias", 512, optimizer="adam"),
        Case("mixed", "mixed", 13, 121, optimizer="adam"),
        Case("encoder-post", "encoder-post", 16, 100, optimizer="adam"),
        Case("encoder-pre", "encoder-pre", 3, 77, optimizer="sgd"),
        Case("encoder-features", "encoder-features", 9, 333, optimizer="adam"),
        Case("bert-small", "bert-small", 16, 128),
        Case("bert-small-odd", "bert-small", 3, 77),
        Case("bert-padding", "bert-padding", 8, 121),
        Case("bert-eager", "bert-eager", 8, 96),
        Case("bert-mlm", "bert-mlm", 8, 128),
        Case("bert-base", "bert-base", 32, 128, optimizer="adam"),
        Case("roberta", "roberta", 7, 128),
        Case("distilbert", "distilbert", 8, 99),
        Case("electra", "electra", 12, 200),
        Case("t5", "t5", 8, 128),
        Case("t5-gated", "t5-gated", 3, 77),
        Case("gpt2-small", "gpt2-small", 4, 256),
        Case("gpt2-small-odd", "gpt2-small", 3, 77),
        Case("gpt2-eager", "gpt2-eager", 4, 128),
        Case("gpt2", "gpt2", 8, 512),
        Case("gpt-neox", "gpt-neox", 4, 200),
        Case("opt", "opt", 5, 128),
        Case("llama-small", "llama-small", 4, 256),
        Case("llama-small-odd", "llama-small", 3, 77),
        Case("llama-gqa", "llama-gqa", 4, 192),
        Case("llama-eager", "llama-eager", 4, 128),
        Case("mistral", "mistral", 3, 300),
        Case("qwen2", "qwen2", 3, 128),
        Case("qwen3", "qwen3", 4, 256),
        Case("gemma", "gemma", 3, 128),
        Case("phi", "phi", 4, 160),
    ]


def precisions():
    return [
        Case("mlp-odd-bf16", "mlp-odd", 2049, dtype="bf16"),
        Case("bert-small-bf16", "bert-small", 16, 128, dtype="bf16"),
        Case("bert-padding-fp16", "bert-padding", 8, 121, dtype="fp16", optimizer="sgd"),
        Case("bert-base-amp-bf16", "bert-base", 16, 128, amp="bf16"),
        Case("bert-small-amp-bf16", "bert-small", 5, 99, amp="bf16"),
        Case("bert-small-amp-fp16", "bert-small", 16, 128, amp="fp16", clip_grad=True),
        Case("t5-bf16", "t5", 8, 128, dtype="bf16"),
        Case("t5-amp-bf16", "t5", 4, 64, amp="bf16"),
        Case("encoder-post-amp-bf16", "encoder-post", 16, 100, amp="bf16"),
        Case("encoder-features-bf16", "encoder-features", 9, 333, dtype="bf16"),
        Case("gpt2-small-bf16", "gpt2-small", 4, 256, dtype="bf16"),
        Case("gpt2-small-amp-bf16", "gpt2-small", 4, 256, amp="bf16"),
        Case("gpt2-small-amp-fp16", "gpt2-small", 3, 77, amp="fp16"),
        Case("gpt2-amp-bf16", "gpt2", 8, 512, amp="bf16"),
        Case("opt-fp16", "opt", 5, 128, dtype="fp16"),
        Case("llama-small-bf16", "llama-small", 4, 256, dtype="bf16"),
        Case("llama-gqa-bf16", "llama-gqa", 3, 77, dtype="bf16"),
        Case("llama-small-amp-bf16", "llama-small", 4, 256, amp="bf16"),
        Case("llama-1b-bf16", "llama-1b", 2, 512, dtype="bf16"),
        Case("mistral-bf16", "mistral", 3, 300, dtype="bf16"),
        Case("qwen2-bf16", "qwen2", 3, 128, dtype="bf16"),
        Case("qwen3-bf16", "qwen3", 5, 123, dtype="bf16"),
        Case("gemma-bf16", "gemma", 3, 128, dtype="bf16"),
        Case("phi-amp-bf16", "phi", 4, 160, amp="bf16"),
        Case("mixed-amp-bf16", "mixed", 13, 121, amp="bf16"),
        Case("gpt-neox-bf16", "gpt-neox", 4, 200, dtype="bf16"),
    ]


def optimizers():
    """The residual stack under every optimizer, and some in their other implementations."""
    names = "sgd momentum nesterov adam amsgrad rmsprop adagrad adadelta adamax nadam radam adafactor".split()
    cases = [Case(f"residual-{name}", "residual", 511, optimizer=name) for name in names]
    for name, implementation in [
        ("adam", "fused"),
        ("adam", "for-loop"),
        ("adamw", "fused"),
        ("adamw", "for-loop"),
        ("sgd", "fused"),
        ("momentum", "for-loop"),
        ("adagrad", "fused"),
        ("rmsprop", "for-loop"),
        ("adadelta", "for-loop"),
        ("radam", "for-loop"),
    ]:
        cases.append(
            Case(
                f"residual-{name}-{implementation}",
                "residual",
                511,
                optimizer=name,
                optimizer_impl=implementation,
            )
        )
    return cases + [
        Case("residual-clip", "residual", 511, optimizer="adamw", clip_grad=True),
        Case("residual-clip-fused-bf16", "residual", 511, dtype="bf16", optimizer_impl="fused", clip_grad=True),
        Case("bert-small-adafactor", "bert-small", 4, 64, optimizer="adafactor"),
        Case("gpt2-small-fused", "gpt2-small", 2, 128, optimizer_impl="fused"),
    ]


def newer_optimizers():
    """Those of bitsandbytes, Muon with AdamW, transformers' Adafactor; groups of weights; updates in the backward pass and
    on the CPU.
    """
    bitsandbytes = "adamw8bit adam8bit lion8bit lion paged-adamw8bit paged-adamw paged-lion8bit paged-lion".split()
    names = (*bitsandbytes, "muon", "adafactor-hf")
    cases = [Case(f"residual-{name}", "residual", 511, optimizer=name) for name in names]
    for name in ("adamw8bit", "paged-adamw8bit", "lion", "muon", "adafactor-hf"):
        cases.append(Case(f"gpt2-small-bf16-{name}", "gpt2-small", 2, 128, dtype="bf16", optimizer=name))
    for name in ("adamw8bit", "muon"):
        cases.append(Case(f"gpt2-small-fp16-{name}", "gpt2-small", 2, 128, amp="fp16", optimizer=name, clip_grad=True))
    cases += [
        Case("resnet18-adamw8bit", "resnet18", 8, optimizer="adamw8bit"),
        Case("resnet18-muon", "resnet18", 8, optimizer="muon"),
        Case("resnet18-adafactor-hf", "resnet18", 8, optimizer="adafactor-hf"),
        Case("bert-small-muon-fp16", "bert-small", 4, 64, amp="fp16", optimizer="muon"),
    ]
    hooked = {"step_in_backward": True}
    for name in ("adamw", "sgd", "momentum", "adafactor", "adamw8bit", "paged-adamw8bit", "adafactor-hf", "adagrad"):
        cases.append(Case(f"residual-hook-{name}", "residual", 511, optimizer=name, **hooked))
    cases += [
        Case("residual-hook-fused", "residual", 511, optimizer_impl="fused", **hooked),
        Case("residual-hook-for-loop", "residual", 511, optimizer_impl="for-loop", **hooked),
        Case("residual-hook-checkpoint", "residual", 2000, checkpoint="sequential:4", **hooked),
        Case("gpt2-small-hook", "gpt2-small", 2, 128, **hooked),
        Case("gpt2-small-hook-bf16", "gpt2-small", 2, 128, dtype="bf16", optimizer="adamw8bit", **hooked),
        Case("llama-small-hook-bf16", "llama-small", 2, 128, dtype="bf16", optimizer="adafactor", **hooked),
        Case("bert-small-hook-amp", "bert-small", 4, 128, amp="bf16", checkpoint="blocks", **hooked),
        Case("bert-frozen-hook", "bert-frozen", 8, 128, **hooked),
        Case("resnet18-hook", "resnet18", 16, optimizer="momentum", **hooked),
        Case("lstm-hook", "lstm", 20, 35, optimizer="adam", **hooked),
        Case("residual-cpu", "residual", 511, optimizer_state="cpu"),
        Case("residual-cpu-clip", "residual", 511, optimizer_state="cpu", clip_grad=True, accumulate=2),
        Case("gpt2-small-cpu-bf16", "gpt2-small", 2, 128, dtype="bf16", optimizer_state="cpu"),
        Case("gpt2-small-cpu-hook", "gpt2-small", 2, 128, optimizer_state="cpu", **hooked),
        Case("resnet18-cpu-hook", "resnet18", 16, optimizer="momentum", optimizer_state="cpu", **hooked),
    ]
    two = "decay:*.weight;*"
    for name in ("adamw", "adam", "momentum", "radam", "adafactor", "adamw8bit"):
        cases.append(Case(f"residual-groups-{name}", "residual", 511, optimizer=name, optimizer_groups=two))
    return cases + [
        Case("residual-groups-three", "residual", 511, optimizer_groups="7-12;0,2,4;*"),
        Case("residual-groups-some", "residual", 511, optimizer_groups="0-3;8,6"),
        Case("gpt2-small-groups-fp16", "gpt2-small", 2, 128, amp="fp16", optimizer_groups="*.bias,*ln_*;*"),
        Case("gpt2-small-groups-fused", "gpt2-small", 2, 128, optimizer_impl="fused", optimizer_groups=two),
        Case("bert-small-groups-clip", "bert-small", 4, 64, optimizer_groups=two, clip_grad=True),
    ]


def loops():
    """Accumulation, places of zero_grad, fresh inputs, checkpointing, evaluation, frozen parameters."""
    return [
        Case("residual-accumulate", "residual", 200, accumulate=3),
        Case("gpt2-small-accumulate", "gpt2-small", 2, 128, accumulate=2),
        Case("bert-small-accumulate-amp", "bert-small", 4, 128, amp="bf16", accumulate=4),
        Case("encoder-post-accumulate-fp16", "encoder-post", 4, 100, amp="fp16", accumulate=2),
        Case("residual-late-zero", "residual", 511, zero_grad="before-backward"),
        Case("gpt2-small-late-zero", "gpt2-small", 2, 128, zero_grad="before-backward", accumulate=2),
        Case("residual-zeros", "residual", 511, set_to_none=False),
        Case("bert-small-zeros-late", "bert-small", 4, 128, zero_grad="before-backward", set_to_none=False),
        Case("mlp-relu-fresh", "mlp-relu", 8192, inputs="fresh"),
        Case("bert-small-fresh", "bert-small", 9, 120, inputs="fresh", accumulate=2),
        Case("residual-checkpoint", "residual", 2000, checkpoint="sequential:4"),
        Case("residual-checkpoint-names", "residual", 2000, checkpoint="blocks.0,blocks.3,blocks.7"),
        Case("mlp-odd-checkpoint", "mlp-odd", 3000, checkpoint="sequential:3"),
        Case("bert-small-checkpoint", "bert-small", 16, 128, checkpoint="blocks"),
        Case("gpt2-checkpoint", "gpt2-no-cache", 4, 256, checkpoint="blocks"),
        Case("gpt2-checkpoint-amp", "gpt2-no-cache", 4, 256, checkpoint="blocks", amp="bf16"),
        Case("llama-checkpoint-bf16", "llama-no-cache", 4, 256, checkpoint="blocks", dtype="bf16"),
        Case("t5-checkpoint", "t5-no-cache", 4, 128, checkpoint="blocks"),
        Case("bert-small-eval", "bert-small", 32, 128, mode="eval"),
        Case("gpt2-small-eval", "gpt2-small", 8, 256, mode="eval"),
        Case("llama-eval-bf16", "llama-gqa", 8, 200, mode="eval", dtype="bf16"),
        Case("encoder-post-eval", "encoder-post", 16, 100, mode="eval"),
        Case("gpt2-small-eval-grad", "gpt2-small", 8, 256, mode="eval", grad=True),
        Case("bert-small-eval-amp", "bert-small", 32, 128, mode="eval", amp="bf16"),
        Case("bert-frozen", "bert-frozen", 16, 128),
        Case("llama-lora", "llama-lora", 4, 256),
        Case("llama-lora-bf16", "llama-lora", 4, 256, dtype="bf16"),
        Case("llama-lora-amp", "llama-lora", 4, 128, amp="bf16"),
    ]


def part_two():
    return [
        Case("resnet18", "resnet18", 16, optimizer="momentum"),
        Case("resnet50", "resnet50", 16, optimizer="adam"),
        Case("resnet50-amp", "resnet50", 16, amp="bf16", optimizer="momentum"),
        Case("resnet50-channels-last-amp", "resnet50-channels-last", 16, amp="fp16", optimizer="momentum"),
        Case("vgg11", "vgg11", 8, optimizer="momentum"),
        Case("mobilenet-v3", "mobilenet-v3", 33, optimizer="rmsprop"),
        Case("efficientnet-b0", "efficientnet-b0", 16),
        Case("convnext-tiny", "convnext-tiny", 8),
        Case("vit-b-16", "vit-b-16", 8),
        Case("vit-b-16-bf16", "vit-b-16", 16, dtype="bf16"),
        Case("fcn", "fcn", 4, optimizer="momentum"),
        Case("deeplab", "deeplab", 4, optimizer="momentum"),
        Case("unet", "unet", 6, optimizer="adam"),
        Case("unet-amp", "unet", 6, amp="bf16", optimizer="adam"),
        Case("lstm", "lstm", 20, 35, optimizer="sgd", clip_grad=True),
        Case("lstm-bidirectional", "lstm-bidirectional", 16, 77, optimizer="adam"),
        Case("gru", "gru", 20, 50, optimizer="adam"),
        Case("gru-bf16", "gru", 20, 50, dtype="bf16", optimizer="adam"),
        Case("resnet18-eval", "resnet18", 32, mode="eval"),
        Case("resnet18-bf16", "resnet18", 48, dtype="bf16", optimizer="sgd"),
        Case("resnet18-amp-large", "resnet18", 96, amp="fp16"),
        Case("resnet50-checkpoint", "resnet50", 12, checkpoint="layer1,layer2,layer3", optimizer="momentum"),
        Case("resnet50-accumulate", "resnet50", 6, accumulate=3),
        Case("resnet50-eval-amp", "resnet50", 32, mode="eval", amp="bf16"),
        Case("vgg11-amp", "vgg11", 16, amp="bf16", optimizer="sgd"),
        Case("mobilenet-v3-amp", "mobilenet-v3", 24, amp="bf16"),
        Case("efficientnet-b0-amp", "efficientnet-b0", 20, amp="fp16", optimizer="rmsprop"),
        Case("convnext-tiny-amp", "convnext-tiny", 12, amp="bf16"),
        Case("vit-b-16-amp", "vit-b-16", 6, amp="fp16"),
        Case("fcn-amp", "fcn", 5, amp="bf16", optimizer="sgd"),
        Case("deeplab-bf16", "deeplab", 3, dtype="bf16", optimizer="adam"),
        Case("unet-eval", "unet", 10, mode="eval"),
        Case("lstm-amp", "lstm", 24, 40, amp="bf16", optimizer="adam"),
        Case("lstm-bidirectional-fp16", "lstm-bidirectional", 8, 50, dtype="fp16", optimizer="sgd"),
        Case("gru-eval", "gru", 32, 64, mode="eval"),
        Case("resnext50", "resnext50", 8, optimizer="momentum"),
        Case("resnext50-amp", "resnext50", 8, amp="fp16", optimizer="momentum"),
        Case("regnet-y", "regnet-y", 12),
        Case("densenet121", "densenet121", 8, optimizer="nesterov"),
        Case("densenet121-amp", "densenet121", 12, amp="bf16", optimizer="nesterov"),
        Case("mobilenet-v2", "mobilenet-v2", 32, optimizer="rmsprop"),
        Case("shufflenet", "shufflenet", 40, optimizer="sgd"),
        Case("squeezenet", "squeezenet", 18, optimizer="sgd"),
        Case("mnasnet", "mnasnet", 16, optimizer="adam"),
        Case("efficientnet-v2-s", "efficientnet-v2-s", 8),
        Case("vgg16-bn", "vgg16-bn", 16, optimizer="momentum"),
        Case("alexnet", "alexnet", 64, optimizer="momentum"),
        Case("googlenet", "googlenet", 16, optimizer="adam"),
        Case("swin-t", "swin-t", 6),
        Case("swin-t-amp", "swin-t", 8, amp="bf16"),
        Case("maxvit-t", "maxvit-t", 4),
        Case("wide-resnet50-channels-last-amp", "wide-resnet50-channels-last", 12, amp="bf16", optimizer="momentum"),
        Case("lraspp", "lraspp", 6, optimizer="momentum"),
        Case("unet-channels-last-amp", "unet-channels-last", 6, amp="bf16"),
        Case("decoder", "decoder", 12),
        Case("decoder-amp", "decoder", 12, amp="fp16"),
        Case("signal", "signal", 32, optimizer="adam"),
        Case("r3d-18", "r3d-18", 4, optimizer="momentum"),
        Case("vit-hf", "vit-hf", 16),
        Case("convnext-hf", "convnext-hf", 8),
        Case("whisper", "whisper", 4, 48),
        Case("whisper-bf16", "whisper", 4, 48, dtype="bf16"),
        Case("rnn", "rnn", 16, 60, optimizer="adam"),
        Case("gru-deep-amp", "gru-deep", 16, 40, amp="fp16", optimizer="adam"),
    ]


CASES = {
    case.name: case
    for case in (*families(), *precisions(), *optimizers(), *newer_optimizers(), *loops(), *part_two())
}

# Tried for real under caps of 80 % to 120 % of their peak reserved.
CAPPED = ["mlp-relu-large", "bert-small", "gpt2-small-amp-bf16", "llama-checkpoint-bf16", "t5", "qwen3-bf16"] + [
    "distilbert-base-fused",
    "t5-small-adamw",
    "mlp-wide-adamax",
]

# Measured alone on the GPU as well, so that mem_get_info tells the context's size.
ALONE = ["mlp-relu", "bert-small", "gpt2-small-bf16", "llama-small-amp-bf16", "residual-adam-fused", "resnet18", "lstm"]
