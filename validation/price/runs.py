"""The timed runs: models and settings. None of the validation models is in the calibration set."""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cases import Case  # noqa: E402

# model: batch (a multiple of four), sequence, what is checkpointed
VALIDATION = {
    "resnet50": (32, None, "layer1,layer2,layer3"),
    "resnet18": (64, None, "layer1,layer2,layer3"),
    "convnext-tiny": (16, None, "features.1,features.3,features.5"),
    "encoder-post": (32, 128, "encoder.layers.0,encoder.layers.1,encoder.layers.2"),
    "bert-base": (32, 128, "blocks"),
    "unet": (8, None, "down.0,down.1,merge.2"),
    "t5-small": (16, 128, "blocks"),
    "efficientnet-b0": (32, None, "features.1,features.2,features.3,features.4"),
    "llama-160m": (8, 512, "blocks"),
    "vit-b-16": (16, None, "encoder.layers.encoder_layer_0,encoder.layers.encoder_layer_1,encoder.layers.encoder_layer_2,"
                 "encoder.layers.encoder_layer_3,encoder.layers.encoder_layer_4,encoder.layers.encoder_layer_5"),
    "distilbert-base": (16, 256, "blocks"),
    "gpt2-medium": (4, 512, "blocks"),
    "opt-125m": (8, 256, "blocks"),
    "residual": (2048, None, "sequential:4"),
    "mlp-wide": (2048, None, "sequential:3"),
    "lstm": (32, 64, None),
}  # fmt: skip
CHANNELS_LAST = {"resnet50": "resnet50-channels-last", "unet": "unet-channels-last"}

# Python's part of a step, from models that are not timed above; small batches, so that the CPU decides.
CALIBRATION = {
    "electra": (2, 32),
    "roberta": (2, 32),
    "qwen3": (2, 32),
    "mistral": (2, 32),
    "gpt-neox": (2, 32),
    "phi": (2, 32),
    "t5-gated": (2, 32),
    "mobilenet-v2": (2, None),
    "densenet121": (2, None),
    "swin-t": (2, None),
    "mlp-odd": (2, None),
    "gru": (2, 16),
}


def settings(model, batch, sequence, checkpoint):
    """The first is the baseline. Names end with the setting."""
    base = Case("base", model, batch, sequence, optimizer="adamw")
    found = [base]
    if checkpoint:
        found.append(replace(base, name="checkpoint", checkpoint=checkpoint))
    found += [
        replace(base, name="accumulate", batch=batch // 4, accumulate=4),
        replace(base, name="amp", amp="bf16"),
        replace(base, name="bf16", dtype="bf16"),
        replace(base, name="for-loop", optimizer_impl="for-loop"),
        replace(base, name="fused", optimizer_impl="fused"),
        replace(base, name="sgd", optimizer="sgd"),
    ]
    if checkpoint:
        found.append(replace(base, name="amp-checkpoint", amp="bf16", checkpoint=checkpoint))
        found.append(replace(base, name="checkpoint-accumulate", batch=batch // 4, accumulate=4, checkpoint=checkpoint))
    if model in CHANNELS_LAST:
        last = CHANNELS_LAST[model]
        found.append(replace(base, name="channels-last", model=last))
        found.append(replace(base, name="channels-last-amp", model=last, amp="bf16"))
    if model in ("bert-base", "resnet18", "mlp-wide"):
        found.append(replace(base, name="fresh", inputs="fresh"))
        found.append(replace(base, name="clip", clip_grad=True))
        found.append(replace(base, name="amp-fp16", amp="fp16"))
    return found


def validation():
    return {model: settings(model, *sizes) for model, sizes in VALIDATION.items()}


def calibration():
    found = {}
    for model, (batch, sequence) in CALIBRATION.items():
        base = Case("base", model, batch, sequence, optimizer="sgd", optimizer_impl="fused")
        found[model] = [base, replace(base, name="amp", amp="bf16")]
    return found


def tricks():
    """What autograd saves elsewhere, in parts or not at all."""
    found = {}
    for model in ("resnet50", "convnext-tiny", "bert-base", "unet", "llama-160m", "vit-b-16", "distilbert-base", "gpt2-medium"):
        batch, sequence, checkpoint = VALIDATION[model]
        base = Case("base", model, batch, sequence, optimizer="adamw")
        checkpointed = replace(base, name="checkpoint", checkpoint=checkpoint)
        rows = [base, replace(base, name="offload", offload_activations="pinned"), checkpointed]
        rows.append(replace(checkpointed, name="checkpoint-offload", offload_activations="pinned"))
        kinds = ["convolution"] if sequence is None and model != "vit-b-16" else ["attention", "matmul", "matmul,attention"]
        rows += [replace(checkpointed, name=f"save-{kind}", checkpoint_save=kind) for kind in kinds]
        rows.append(replace(base, name="amp", amp="bf16"))
        rows.append(replace(base, name="amp-offload", amp="bf16", offload_activations="pinned"))
        rows += [
            replace(checkpointed, name=f"amp-save-{kind}", amp="bf16", checkpoint_save=kind) for kind in kinds[-1:]
        ]
        if model in ("llama-160m", "gpt2-medium"):
            rows.append(replace(base, name="chunked", chunked_loss=8))
            rows.append(replace(base, name="liger", fused_linear_loss="liger"))
            rows.append(replace(base, name="amp-chunked", amp="bf16", chunked_loss=8))
            rows.append(replace(base, name="amp-liger", amp="bf16", fused_linear_loss="liger"))
        found[model] = rows
    return found
