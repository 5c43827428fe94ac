"""A Llama of 3 billion parameters, with one memory-saving setting after another: the ladder that torchtune publishes, in eager mode."""

from dataclasses import replace

from cases.adapters import adapted
from cases.case import Case
from cases.models import transformers_model

CONFIG = {
    "vocab_size": 128256,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 28,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": True,
    "use_cache": False,
}
ADAPTERS = {"target_modules": "all-linear", "r": 8}


def bare(**arguments):
    """The model itself; peft changes it in place."""
    model = adapted(**arguments)
    return model.get_base_model() if arguments.get("lora") else model


def models():
    def llama(name, **others):
        made = transformers_model(name, "LlamaForCausalLM", ("LlamaConfig", CONFIG), "num_hidden_layers")
        return replace(made, builder=bare, arguments={**made.arguments, "dtype": "bfloat16", **others}, part=4)

    return [
        llama("llama-3b"),
        llama("llama-3b-lora", lora=ADAPTERS),
        llama("llama-3b-qlora", lora=ADAPTERS, quantize={"scheme": "nf4"}),
    ]


# Each step adds to those before it.
STEPS = [
    ("baseline", "llama-3b", {}),
    ("chunked cross-entropy", "llama-3b", {"chunked_loss": 8}),
    ("checkpointing", "llama-3b", {"checkpoint": "blocks"}),
    ("optimizer step in backward", "llama-3b", {"step_in_backward": True}),
    ("activations on the CPU", "llama-3b", {"offload_activations": "pinned"}),
    ("8-bit AdamW", "llama-3b", {"optimizer": "adamw8bit"}),
    ("LoRA", "llama-3b-lora", {"optimizer": "adamw", "step_in_backward": False}),
    ("QLoRA", "llama-3b-qlora", {}),
]


def cases():
    settings = {"dtype": "as-built"}
    for number, (_, model, more) in enumerate(STEPS):
        settings = {**settings, **more}
        yield Case(f"ladder-{number}", model, 2, 4096, **settings)
