"""What a case does to save memory, written as the code that `vramfit plan` prints writes it."""

import contextlib
import fnmatch
import functools

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

SAVED = {
    "matmul": ["mm.default", "addmm.default", "bmm.default", "baddbmm.default"],
    "attention": [
        "_scaled_dot_product_flash_attention.default",
        "_scaled_dot_product_efficient_attention.default",
        "_scaled_dot_product_cudnn_attention.default",
    ],
    "convolution": ["convolution.default"],
}


def offload(setting):
    """A new context for each forward pass: what autograd saves in it is kept on the CPU."""
    if setting == "none":
        return contextlib.nullcontext()
    return torch.autograd.graph.save_on_cpu(pin_memory=setting == "pinned")


def with_channels_last(tensor):
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def selective(setting):
    """The argument `context_fn` of `checkpoint`: results of these operators are kept, not computed again."""
    if setting == "none":
        return {}
    operators = []
    for name in setting.split(","):
        for overload in SAVED[name]:
            packet, _, overload = overload.partition(".")
            operators.append(getattr(getattr(torch.ops.aten, packet), overload))
    return {"context_fn": functools.partial(create_selective_checkpoint_contexts, operators)}


def freeze(model, setting):
    """A pattern names weights or modules; `*` matches within one part between dots."""
    patterns = [pattern.split(".") for pattern in setting.split(",") if pattern]
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if any(len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted)) for wanted in patterns):
            parameter.requires_grad_(False)


def average(model, is_averaged):
    """An exponential moving average of the weights, on the same GPU."""
    return AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999)) if is_averaged else None


def replace_loss(model, chunks, fused):
    """The head returns what it is given; the loss multiplies with its weight."""
    if not chunks and fused == "none":
        return
    head = model.get_output_embeddings()
    compute_logits = head.forward
    head.forward = lambda hidden: hidden
    if fused == "liger":
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

        function = LigerFusedLinearCrossEntropyLoss()

        def fused_loss(logits, labels, **_):
            hidden = logits.flatten(0, 1)
            labels = torch.nn.functional.pad(labels[..., 1:], (0, 1), value=-100).flatten()
            return function(head.weight, hidden, labels, head.bias)

        model.loss_function = fused_loss
        return

    def loss_of_chunk(hidden, labels):
        logits = compute_logits(hidden).float()
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum")

    def chunked_loss(logits, labels, **_):
        hidden = logits.flatten(0, 1)
        labels = torch.nn.functional.pad(labels[..., 1:], (0, 1), value=-100).flatten()
        parts = zip(hidden.chunk(chunks), labels.chunk(chunks))
        losses = [checkpoint(loss_of_chunk, *part, use_reentrant=False) for part in parts]
        return torch.stack(losses).sum() / (labels != -100).sum()

    model.loss_function = chunked_loss
