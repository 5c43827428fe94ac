"""The models and training steps of LitGPT's memory tables, built by the commit of LitGPT that a table's row was made with.

`LITGPT_SOURCES` names a folder with one checkout of LitGPT per commit, each in a folder named after the first eight digits (seven for
Lit-GPT's 8641822, as the table writes it).
"""

import importlib
import os
import sys

import torch

CHUNK = 128  # tokens per call of the head in LitGPT's LoRA and adapter scripts
TABLE = "8641822"  # the commit that tutorials/resource-tables.md names


def package(commit):
    """LitGPT's own modules at a commit: (package name, import function)."""
    for module in [module for module in sys.modules if module.split(".")[0] in ("litgpt", "lit_gpt")]:
        del sys.modules[module]
    sources = os.environ["LITGPT_SOURCES"]
    sys.path[:] = [os.path.join(sources, commit)] + [path for path in sys.path if not path.startswith(sources)]
    name = "lit_gpt" if commit == TABLE else "litgpt"
    return lambda module: importlib.import_module(f"{name}.{module}")


def through_fabric(outputs):
    """What Lightning Fabric returns with precision `bf16-true`: outputs converted to the default dtype (`HalfPrecision.convert_output`)."""
    return [chunk.float() for chunk in outputs] if isinstance(outputs, list) else outputs.float()


class ChunkedStep(torch.nn.Module):
    """Head and loss in chunks; the script holds the chunks of logits."""

    def __init__(self, gpt, loss):
        super().__init__()
        self.gpt, self.loss = gpt, loss

    def forward(self, input_ids, targets):
        logits = through_fabric(self.gpt(input_ids, lm_head_chunk_size=CHUNK))
        logits[-1] = logits[-1][..., :-1, :]
        loss = self.loss(logits, targets[..., 1:])
        return {"loss": loss, **{f"logits_{index}": chunk for index, chunk in enumerate(logits)}}


class FullStep(torch.nn.Module):
    def __init__(self, gpt, loss, shift, **options):
        super().__init__()
        self.gpt, self.loss, self.shift, self.options = gpt, loss, shift, options

    def forward(self, input_ids, targets):
        logits = through_fabric(self.gpt(input_ids))
        if self.shift:
            return {"loss": self.loss(logits[..., :-1, :], targets[..., 1:], **self.options), "logits": logits}
        # The pretraining script computes the loss inside a function: its logits are gone when it returns.
        return {"loss": self.loss(logits, targets, **self.options)}


def in_bfloat16(make):
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            return make()
    finally:
        torch.set_default_dtype(torch.float32)


def tokens(length):
    shape = (torch.int64, ("batch", length))
    return {"input_ids": shape, "targets": shape}


def lora(commit, name, length, r, dropout, everywhere=False):
    def build():
        module = package(commit)
        adapted = module("lora")
        prefix = "" if commit == TABLE else "lora_"
        where = {"query": True, "key": everywhere, "value": True, "projection": everywhere, "mlp": everywhere, "head": everywhere}
        names = {key: f"to_{key}" if commit == TABLE else f"lora_{key}" for key in where}
        config = adapted.Config.from_name(
            name, **{f"{prefix}r": r, f"{prefix}alpha": 16, f"{prefix}dropout": dropout}, **{names[key]: on for key, on in where.items()}
        )
        model = in_bfloat16(lambda: adapted.GPT(config))
        adapted.mark_only_lora_as_trainable(model)
        model.max_seq_length = length
        return ChunkedStep(model, module("utils").chunked_cross_entropy)

    return build, tokens(length), None


def adapter(name, length, version):
    def build():
        module = package(TABLE)
        adapted = module("adapter_v2" if version == 2 else "adapter")
        model = in_bfloat16(lambda: adapted.GPT(adapted.Config.from_name(name)))
        (adapted.mark_only_adapter_v2_as_trainable if version == 2 else adapted.mark_only_adapter_as_trainable)(model)
        model.max_seq_length = length
        return ChunkedStep(model, module("utils").chunked_cross_entropy)

    return build, tokens(length), None


def full(commit, name, length, shift=True, **options):
    def build():
        module = package(commit)
        model = in_bfloat16(lambda: module("model").GPT(module("config").Config.from_name(name)))
        model.max_seq_length = length
        return FullStep(model, module("utils").chunked_cross_entropy, shift, **options)

    return build, tokens(length), None


QUERY_VALUE = {"r": 32, "dropout": 0.05}
MODELS = {
    # tutorials/resource-tables.md: r=8 on query and value
    "table-phi-1_5": lora(TABLE, "phi-1_5", 1044, 8, 0.05),
    "table-stablelm-base-alpha-3b": lora(TABLE, "stablelm-base-alpha-3b", 1034, 8, 0.05),
    "table-Llama-2-7b-hf": lora(TABLE, "Llama-2-7b-hf", 1304, 8, 0.05),
    "table-Llama-2-13b-hf": lora(TABLE, "Llama-2-13b-hf", 1304, 8, 0.05),
    "table-falcon-40b": lora(TABLE, "falcon-40b", 1079, 8, 0.05),
    "adapter-stablelm-base-alpha-3b": adapter("stablelm-base-alpha-3b", 1034, 1),
    "adapter-Llama-2-7b-hf": adapter("Llama-2-7b-hf", 1304, 1),
    "adapter_v2-stablelm-base-alpha-3b": adapter("stablelm-base-alpha-3b", 1034, 2),
    "adapter_v2-Llama-2-7b-hf": adapter("Llama-2-7b-hf", 1304, 2),
    # config_hub/finetune/README.md
    "hub-falcon-7b": lora("5895df10", "falcon-7b", 512, **QUERY_VALUE),
    "hub-gemma-2b": lora("5895df10", "Gemma-2b", 512, 8, 0.1, everywhere=True),
    "hub-gemma-2-2b": lora("2b195c7f", "Gemma-2-2b", 512, 8, 0.1, everywhere=True),
    "hub-Llama-2-7b-hf": lora("5895df10", "Llama-2-7b-hf", 512, **QUERY_VALUE),
    "hub-Meta-Llama-3-8B": lora("5895df10", "Llama-3-8B", 512, **QUERY_VALUE),
    "hub-Llama-3.2-1B": lora("00af8b0d", "Llama-3.2-1B", 512, **QUERY_VALUE),
    "hub-Llama-3.2-3B": lora("00af8b0d", "Llama-3.2-3B", 512, **QUERY_VALUE),
    "hub-Mistral-7B-v0.1": lora("5895df10", "Mistral-7B-v0.1", 512, **QUERY_VALUE),
    "hub-phi-2": lora("5895df10", "phi-2", 512, 8, 0.05, everywhere=True),
    "hub-Phi-3-mini-4k-instruct": lora("f247be87", "Phi-3-mini-4k-instruct", 512, 8, 0.05, everywhere=True),
    "hub-stablelm-base-alpha-3b": lora("5895df10", "stablelm-base-alpha-3b", 512, **QUERY_VALUE),
    "hub-TinyLlama-full": full("5895df10", "tiny-llama-1.1b", 512),
    "hub-TinyLlama-lora": lora("5895df10", "tiny-llama-1.1b", 512, 32, 0.05, everywhere=True),
    # extensions/thunder/README.md
    "thunder-TinyLlama": full("5895df10", "tiny-llama-1.1b", 2048, shift=False, chunk_size=0),
}
