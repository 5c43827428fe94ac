"""Fine-tuning as it is done on small GPUs: LoRA of peft, weights quantised by bitsandbytes."""

from cases.case import Case
from cases.models import transformers_model

ALL_LINEAR = "all-linear"
BUILT = "as-built"


def adapted(architecture, config, dtype=None, quantize=None, lora=None, prepared=False, tiny=None):
    """A model of transformers: cast, its linear layers but the head quantised, prepared as peft does, with adapters."""
    import torch
    import transformers

    config_class, model_class = getattr(transformers, config[0]), getattr(transformers, architecture)
    model = model_class(config_class(**{**config[1], **(tiny or {})}))
    if dtype:
        model = model.to(getattr(torch, dtype))
    if quantize:
        quantized(model, **quantize)
    if prepared:
        from peft import prepare_model_for_kbit_training

        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if lora is not None:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(**lora))
    return model


def quantized(model, scheme, double=True, compute="bfloat16", threshold=6.0):
    """Replaces the linear layers but the head, each with the weights it has."""
    import bitsandbytes as bnb
    import torch
    from torch import nn

    head = model.get_output_embeddings()
    for name, layer in list(model.named_modules()):
        if type(layer) is not nn.Linear or layer is head:
            continue
        has_bias = layer.bias is not None
        if scheme == "int8":
            made = bnb.nn.Linear8bitLt(
                layer.in_features, layer.out_features, has_bias, has_fp16_weights=False, threshold=threshold
            )
            made.weight = bnb.nn.Int8Params(layer.weight.data, requires_grad=False, has_fp16_weights=False)
        else:
            made = bnb.nn.Linear4bit(
                layer.in_features,
                layer.out_features,
                has_bias,
                compute_dtype=getattr(torch, compute) if compute else None,
                compress_statistics=double,
                quant_type=scheme,
            )
            made.weight = bnb.nn.Params4bit(
                layer.weight.data, requires_grad=False, compress_statistics=double, quant_type=scheme, module=made
            )
        if has_bias:
            made.bias = layer.bias
        model.set_submodule(name, made)
    # peft looks here to choose its layers.
    setattr(model, "is_loaded_in_8bit" if scheme == "int8" else "is_loaded_in_4bit", True)


def models():
    def llama(name, **others):
        sizes = {
            "vocab_size": 32000,
            "hidden_size": 512,
            "intermediate_size": 1408,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "use_cache": False,
        }
        return adapted_model(name, "LlamaForCausalLM", ("LlamaConfig", sizes), "num_hidden_layers", **others)

    def adapted_model(name, architecture, config, layers_key, labels=None, mask=None, **others):
        from dataclasses import replace

        made = transformers_model(name, architecture, config, layers_key, mask=mask, labels=labels)
        return replace(made, builder=adapted, arguments={**made.arguments, **others}, part=3)

    gpt2 = ("GPT2Config", {"vocab_size": 50257, "n_embd": 384, "n_layer": 4, "n_head": 6, "use_cache": False})
    bert_sizes = {"vocab_size": 30522, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
    bert = ("BertConfig", {**bert_sizes, "num_hidden_layers": 4})
    nf4, everywhere = {"scheme": "nf4"}, {"target_modules": ALL_LINEAR}
    return [
        llama("llama-base"),
        llama("llama-peft", lora={}),
        llama("llama-peft-all", lora={**everywhere, "r": 16, "lora_dropout": 0.05}),
        adapted_model("gpt2-peft", "GPT2LMHeadModel", gpt2, "n_layer", lora={"fan_in_fan_out": True}),
        adapted_model(
            "bert-peft",
            "BertForSequenceClassification",
            bert,
            "num_hidden_layers",
            labels=2,
            mask="ones",
            lora={"task_type": "SEQ_CLS", "r": 4, "lora_dropout": 0.1},
        ),
        llama("llama-peft-mixed", dtype="bfloat16", lora={**everywhere, "lora_dropout": 0.05}),
        llama("llama-nf4", quantize=nf4, lora={}),
        llama("llama-nf4-mixed", dtype="bfloat16", quantize=nf4, lora=everywhere),
        llama("llama-nf4-prepared", dtype="bfloat16", quantize=nf4, prepared=True, lora={**everywhere, "r": 16, "lora_dropout": 0.1}),
        llama("llama-fp4-single", quantize={"scheme": "fp4", "double": False, "compute": None}, lora=everywhere),
        adapted_model(
            "bert-nf4",
            "BertForSequenceClassification",
            bert,
            "num_hidden_layers",
            labels=2,
            mask="ones",
            quantize=nf4,
            lora={"target_modules": ["query", "value"]},
        ),
        llama("llama-int8", quantize={"scheme": "int8", "threshold": 0.0}, lora={}),
        llama("llama-int8-outliers", quantize={"scheme": "int8"}, lora=everywhere),
        llama("llama-int8-mixed", dtype="bfloat16", quantize={"scheme": "int8"}, lora={"lora_dropout": 0.05}),
    ]


def cases():
    def all_of(model, *settings, batch=4, seq=256):
        for name, changed in settings:
            yield Case(f"{model}{name}", model, changed.pop("batch", batch), changed.pop("seq", seq), **changed)

    plain, half, amp = ("", {}), ("-bf16", {"dtype": "bf16"}), ("-amp", {"amp": "bf16"})
    checkpoint = ("-checkpoint-bf16", {"dtype": "bf16", "checkpoint": "blocks"})
    few = ("-few", {"dtype": "bf16", "batch": 2, "seq": 60})
    return [
        *all_of("llama-base", plain, amp),
        *all_of("llama-peft", plain, half, amp, checkpoint),
        *all_of("llama-peft-all", plain, half, amp),
        *all_of("gpt2-peft", plain, half),
        *all_of("bert-peft", plain, amp, batch=8, seq=128),
        *all_of("llama-nf4", plain, half, checkpoint, few, seq=400),
        *all_of("llama-peft-mixed", ("", {"dtype": BUILT}), ("-checkpoint", {"dtype": BUILT, "checkpoint": "blocks"})),
        *all_of("llama-nf4-mixed", ("", {"dtype": BUILT}), ("-few", {"dtype": BUILT, "batch": 2, "seq": 60})),
        *all_of(
            "llama-nf4-prepared",
            ("", {"dtype": BUILT}),
            ("-few", {"dtype": BUILT, "batch": 2, "seq": 60}),
            ("-checkpoint", {"dtype": BUILT, "batch": 8, "checkpoint": "blocks"}),
        ),
        *all_of("llama-fp4-single", half, plain, seq=400),
        *all_of("bert-nf4", half, ("-amp", {"amp": "fp16"}), batch=8, seq=200),
        *all_of("llama-int8", ("-fp16", {"dtype": "fp16"}), half),
        *all_of("llama-int8-mixed", ("", {"dtype": BUILT}), ("-checkpoint", {"dtype": BUILT, "checkpoint": "blocks"})),
        *all_of("llama-int8-outliers", ("-fp16", {"dtype": "fp16"}), checkpoint),
    ]
