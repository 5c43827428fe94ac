"""Models at their published sizes, under settings chosen before any of them had been measured.

They were added after the rules were finished, to test the rules on models they were not derived from.
"""

from cases.case import Case, Model, Tensor
from cases.models import transformers_model
from cases.plain import perceptron


def causal(name, family, layers_key="num_hidden_layers", mask=None, **config):
    return transformers_model(name, f"{family}ForCausalLM", (f"{family}Config", config), layers_key, mask=mask)


def classifier(name, family, layers_key="num_hidden_layers", **config):
    architecture = f"{family}ForSequenceClassification"
    return transformers_model(name, architecture, (f"{family}Config", config), layers_key, mask="ones", labels=3)


def models():
    return [
        classifier("bert-large", "Bert", vocab_size=30522, hidden_size=1024, num_hidden_layers=24,
                   num_attention_heads=16, intermediate_size=4096),
        classifier("roberta-base", "Roberta", vocab_size=50265, max_position_embeddings=514),
        classifier("distilbert-base", "DistilBert", "n_layers", vocab_size=30522),
        transformers_model("electra-mlm", "ElectraForMaskedLM", ("ElectraConfig", {"vocab_size": 30522}),
                           "num_hidden_layers", mask="padding"),
        transformers_model("gpt2-medium", "GPT2LMHeadModel",
                           ("GPT2Config", {"vocab_size": 50257, "n_embd": 1024, "n_layer": 24, "n_head": 16,
                                           "use_cache": False}), "n_layer"),
        causal("pythia-160m", "GPTNeoX", vocab_size=50304, hidden_size=768, num_hidden_layers=12,
               num_attention_heads=12, intermediate_size=3072, rotary_pct=0.25, mask="ones"),
        causal("opt-125m", "OPT", vocab_size=50272, mask="ones"),
        transformers_model("t5-small", "T5ForConditionalGeneration",
                           ("T5Config", {"vocab_size": 32128, "decoder_start_token_id": 0}), "num_layers"),
        causal("llama-160m", "Llama", vocab_size=32000, hidden_size=768, intermediate_size=3072,
               num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4, use_cache=False),
        causal("qwen2-0.5b", "Qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864,
               num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True),
        causal("qwen3-0.6b", "Qwen3", vocab_size=151936, hidden_size=1024, intermediate_size=3072, head_dim=128,
               num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, tie_word_embeddings=True),
        causal("gemma-wide", "Gemma", vocab_size=256000, hidden_size=768, intermediate_size=6144, head_dim=256,
               num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=1),
        causal("phi-1", "Phi", vocab_size=51200, hidden_size=2048, intermediate_size=8192, num_hidden_layers=8,
               num_attention_heads=32),
        causal("mistral-window", "Mistral", vocab_size=32000, hidden_size=1024, intermediate_size=3584,
               num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=8, sliding_window=128, mask="ones"),
        Model("mlp-wide", perceptron, {"sizes": (3072, 4096, 2048, 2048, 1000), "activations": ("ReLU", "GELU")},
              {"input": Tensor(("batch", 3072))}, Tensor(("batch",), "integer", 1000), "cross_entropy"),
    ]


def cases():
    return [
        Case("bert-large-momentum", "bert-large", 4, 128, optimizer="momentum", clip_grad=True),
        Case("bert-large-checkpoint-amp", "bert-large", 6, 384, amp="bf16", checkpoint="blocks"),
        Case("bert-large-eval", "bert-large", 32, 256, mode="eval", dtype="fp16"),
        Case("roberta-base-adamw", "roberta-base", 16, 256),
        Case("roberta-base-fp16", "roberta-base", 10, 130, amp="fp16", optimizer="nesterov"),
        Case("distilbert-base-fused", "distilbert-base", 24, 200, optimizer="adam", optimizer_impl="fused"),
        Case("distilbert-base-accumulate", "distilbert-base", 8, 64, accumulate=3, zero_grad="before-backward"),
        Case("electra-mlm-bf16", "electra-mlm", 10, 128, dtype="bf16"),
        Case("gpt2-medium-adafactor", "gpt2-medium", 2, 512, optimizer="adafactor"),
        Case("gpt2-medium-checkpoint", "gpt2-medium", 3, 400, amp="bf16", checkpoint="blocks", clip_grad=True),
        Case("pythia-160m-accumulate", "pythia-160m", 4, 300, accumulate=2),
        Case("opt-125m-rmsprop", "opt-125m", 6, 256, optimizer="rmsprop"),
        Case("opt-125m-amp", "opt-125m", 3, 511, amp="fp16"),
        Case("t5-small-adamw", "t5-small", 8, 96),
        Case("t5-small-eval", "t5-small", 16, 200, mode="eval", amp="bf16"),
        Case("llama-160m-bf16", "llama-160m", 4, 512, dtype="bf16", optimizer_impl="fused"),
        Case("llama-160m-checkpoint", "llama-160m", 8, 333, checkpoint="blocks"),
        Case("qwen2-0.5b-bf16", "qwen2-0.5b", 2, 256, dtype="bf16"),
        Case("qwen3-0.6b-sgd", "qwen3-0.6b", 1, 128, dtype="bf16", optimizer="sgd"),
        Case("gemma-wide-zeros", "gemma-wide", 2, 200, set_to_none=False),
        Case("phi-1-nadam", "phi-1", 2, 256, optimizer="nadam"),
        Case("mistral-window-amsgrad", "mistral-window", 2, 300, optimizer="amsgrad"),
        Case("mistral-window-fresh", "mistral-window", 3, 256, amp="bf16", inputs="fresh"),
        Case("mlp-wide-adamax", "mlp-wide", 777, optimizer="adamax"),
        Case("mlp-wide-fp16", "mlp-wide", 4000, amp="fp16", inputs="fresh"),
    ]
