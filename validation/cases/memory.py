"""Cases that save memory: saved tensors on the CPU, selective checkpoints, other losses, frozen weights, and averages."""

from cases.case import Case


def offloaded():
    return [
        Case("residual-offload", "residual", 511, offload_activations="pinned"),
        Case("mlp-odd-offload-pageable", "mlp-odd", 1003, offload_activations="pageable"),
        Case("mixed-offload", "mixed", 13, 121, offload_activations="pinned"),
        Case("encoder-post-offload", "encoder-post", 16, 100, offload_activations="pinned"),
        Case("bert-eager-offload", "bert-eager", 8, 96, offload_activations="pinned"),
        Case("gpt2-small-offload", "gpt2-small", 4, 256, offload_activations="pinned"),
        Case("gpt2-small-offload-pageable", "gpt2-small", 3, 77, offload_activations="pageable"),
        Case("gpt2-small-offload-amp", "gpt2-small", 4, 256, amp="bf16", offload_activations="pinned"),
        Case("llama-small-offload-bf16", "llama-small", 4, 256, dtype="bf16", offload_activations="pinned"),
        Case("llama-small-offload-accumulate", "llama-small", 2, 128, accumulate=2, offload_activations="pinned"),
        Case("t5-offload", "t5", 8, 128, offload_activations="pinned"),
        Case("resnet18-offload", "resnet18", 16, optimizer="momentum", offload_activations="pinned"),
        Case("resnet18-offload-amp", "resnet18", 16, amp="fp16", offload_activations="pageable"),
        Case(
            "llama-checkpoint-offload-bf16",
            "llama-no-cache",
            4,
            256,
            checkpoint="blocks",
            dtype="bf16",
            offload_activations="pinned",
        ),
        Case(
            "gpt2-checkpoint-offload", "gpt2-no-cache", 4, 256, checkpoint="blocks", offload_activations="pinned"
        ),
        Case(
            "residual-checkpoint-offload",
            "residual",
            2000,
            checkpoint="blocks.0,blocks.3,blocks.7",
            offload_activations="pinned",
        ),
    ]


def selective():
    both = "matmul,attention"
    return [
        Case("residual-save", "residual", 2000, checkpoint="blocks.0,blocks.3,blocks.7", checkpoint_save="matmul"),
        Case("bert-small-save", "bert-small", 16, 128, checkpoint="blocks", checkpoint_save="attention"),
        Case("bert-eager-save", "bert-eager", 8, 96, checkpoint="blocks", checkpoint_save="matmul"),
        Case("gpt2-save", "gpt2-no-cache", 4, 256, checkpoint="blocks", checkpoint_save=both),
        Case("gpt2-save-amp", "gpt2-no-cache", 4, 256, amp="bf16", checkpoint="blocks", checkpoint_save=both),
        Case("llama-save-bf16", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", checkpoint_save=both),
        Case("llama-save-attention", "llama-no-cache", 4, 256, checkpoint="blocks", checkpoint_save="attention"),
        Case(
            "resnet50-save",
            "resnet50",
            12,
            optimizer="momentum",
            checkpoint="layer1,layer2,layer3",
            checkpoint_save="convolution",
        ),
    ]


def losses():
    return [
        Case("gpt2-small-chunked", "gpt2-small", 4, 256, chunked_loss=4),
        Case("gpt2-small-chunked-odd", "gpt2-small", 3, 77, chunked_loss=4, optimizer="sgd"),
        Case("gpt2-small-chunked-amp", "gpt2-small", 4, 256, amp="bf16", chunked_loss=8),
        Case("llama-small-chunked", "llama-small", 4, 256, chunked_loss=8),
        Case("llama-small-chunked-bf16", "llama-small", 4, 256, dtype="bf16", chunked_loss=8),
        Case("llama-small-chunked-amp-fp16", "llama-small", 4, 128, amp="fp16", chunked_loss=4),
        Case("phi-chunked", "phi", 4, 160, chunked_loss=5),
        Case("llama-checkpoint-chunked", "llama-no-cache", 4, 256, dtype="bf16", checkpoint="blocks", chunked_loss=8),
        Case("gpt2-small-liger", "gpt2-small", 4, 256, fused_linear_loss="liger"),
        Case("gpt2-small-liger-amp", "gpt2-small", 4, 256, amp="bf16", fused_linear_loss="liger"),
        Case("llama-small-liger-bf16", "llama-small", 4, 256, dtype="bf16", fused_linear_loss="liger"),
        Case("llama-small-liger-odd", "llama-small", 3, 77, fused_linear_loss="liger", accumulate=2),
        Case("phi-liger-amp", "phi", 4, 160, amp="bf16", fused_linear_loss="liger"),
        Case("llama-small-liger-amp-fp16", "llama-small", 4, 128, amp="fp16", fused_linear_loss="liger"),
    ]


def weights():
    """An average beside the model; weights that are not trained."""
    embeddings = "bert.embeddings,bert.encoder.layer.0"
    return [
        Case("residual-ema", "residual", 511, ema=True),
        Case("gpt2-small-ema-bf16", "gpt2-small", 2, 128, dtype="bf16", ema=True),
        Case("resnet18-ema", "resnet18", 16, optimizer="momentum", ema=True),
        Case("gru-ema", "gru", 20, 50, ema=True),
        Case("bert-small-freeze", "bert-small", 16, 128, freeze=embeddings),
        Case("bert-small-freeze-amp", "bert-small", 5, 99, amp="bf16", freeze=embeddings, ema=True),
        Case("residual-freeze-adagrad", "residual", 511, optimizer="adagrad", freeze="blocks.0,blocks.1,blocks.2,blocks.3"),
        Case("gpt2-small-freeze-amp", "gpt2-small", 3, 77, amp="bf16", freeze="transformer.h"),
        Case("resnet18-freeze", "resnet18", 16, optimizer="momentum", freeze="conv1,bn1,layer1"),
    ]


def layouts():
    """Images with channels last, and fused attention: the captures have neither."""
    both = {"channels_last": True}
    return [
        Case("layout-resnet18", "resnet18", 16, optimizer="momentum", **both),
        Case("layout-resnet18-amp", "resnet18", 16, amp="bf16", **both),
        Case("layout-resnet18-fp16", "resnet18", 12, amp="fp16", optimizer="momentum", **both),
        Case("layout-resnet50", "resnet50", 16, optimizer="momentum", **both),
        Case("layout-resnet50-amp", "resnet50", 16, amp="fp16", optimizer="momentum", **both),
        Case("layout-mobilenet-v2", "mobilenet-v2", 16, **both),
        Case("layout-mobilenet-v2-amp", "mobilenet-v2", 16, amp="bf16", **both),
        Case("layout-efficientnet-b0-amp", "efficientnet-b0", 16, amp="bf16", **both),
        Case("layout-convnext-tiny", "convnext-tiny", 8, **both),
        Case("layout-convnext-tiny-amp", "convnext-tiny", 8, amp="bf16", **both),
        Case("layout-densenet121-amp", "densenet121", 8, amp="bf16", **both),
        Case("layout-unet", "unet", 6, **both),
        Case("layout-unet-amp", "unet", 6, amp="bf16", **both),
        Case("layout-unet-bf16", "unet", 6, dtype="bf16", **both),
        Case("layout-googlenet-amp", "googlenet", 12, amp="bf16", optimizer="momentum", **both),
        Case("layout-regnet-y-fp16", "regnet-y", 12, amp="fp16", **both),
        Case("fused-gpt", "written-gpt", 4, 256, fused_attention=True),
        Case("fused-gpt-amp", "written-gpt", 4, 200, amp="bf16", fused_attention=True),
        Case("fused-gpt-fp16", "written-gpt", 4, 256, dtype="fp16", fused_attention=True),
        Case("fused-gpt-checkpoint", "written-gpt", 4, 256, checkpoint="blocks.0,blocks.1,blocks.2", fused_attention=True),
        Case("fused-encoder", "written-encoder", 4, 256, fused_attention=True),
        Case("fused-encoder-amp", "written-encoder", 3, 333, amp="bf16", fused_attention=True),
        Case("fused-encoder-bf16", "written-encoder", 4, 256, dtype="bf16", fused_attention=True),
    ]


def cases():
    return [*offloaded(), *selective(), *losses(), *weights()]
