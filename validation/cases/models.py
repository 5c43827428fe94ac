"""The models of the cases, each of which is captured once. Part two's are in vision_models.py."""

from cases.case import Model, Tensor
from cases.huggingface import huggingface
from cases.plain import Encoder, FeatureEncoder, MixedOperations, ResidualStack, perceptron
from cases.vision_models import VISION_MODELS

BATCH_SEQ = ("batch", "seq")


def perceptrons():
    def model(name, sizes, loss, targets, **arguments):
        inputs = {"input": Tensor(("batch", sizes[0]))}
        return Model(name, perceptron, {"sizes": sizes, **arguments}, inputs, targets, loss)

    def labels(classes):
        return Tensor(("batch",), "integer", classes)

    return [
        model("mlp-relu", (784, 1024, 1024, 10), "cross_entropy", labels(10)),
        model("mlp-inplace", (784, 1024, 1024, 1024, 10), "cross_entropy", labels(10), activations=("ReLU_", "SiLU_")),
        model(
            "mlp-odd",
            (333, 1001, 777, 129, 7),
            "cross_entropy",
            labels(7),
            activations=("GELU", "Tanh", "Softplus"),
            norm="LayerNorm",
            dropout=0.1,
        ),
        model(
            "mlp-activations",
            (257, 515, 515, 515, 515, 515, 515, 515, 515, 3),
            "mean_squared_error",
            Tensor(("batch", 3)),
            activations=("LeakyReLU", "ELU", "Sigmoid", "Hardswish", "Mish", "PReLU", "LogSigmoid", "SELU"),
        ),
        model(
            "mlp-no-bias",
            (4096, 4096, 4096, 1000),
            "binary_cross_entropy",
            Tensor(("batch", 1000)),
            activations=("SiLU", "ReLU6"),
            bias=False,
            norm="RMSNorm",
        ),
        Model(
            "residual",
            ResidualStack,
            {"inputs": 300, "width": 640, "blocks": 8, "classes": 100},
            {"x": Tensor(("batch", 300))},
            labels(100),
            "cross_entropy",
        ),
        Model(
            "mixed",
            MixedOperations,
            {"width": 192, "classes": 11},
            {"x": Tensor(("batch", "seq", 192)), "mask": Tensor(BATCH_SEQ, "boolean")},
            labels(11),
            "cross_entropy",
        ),
    ]


def encoders():
    def model(name, norm_first, activation, **sizes):
        return Model(
            name,
            Encoder,
            {**sizes, "norm_first": norm_first, "activation": activation},
            {"tokens": Tensor(BATCH_SEQ, "integer", sizes["vocabulary"])},
            Tensor(("batch",), "integer", sizes["classes"]),
            "cross_entropy",
        )

    return [
        model(
            "encoder-post", False, "relu", vocabulary=10_000, width=256, heads=8, layers=3, feedforward=1024, classes=5
        ),
        model("encoder-pre", True, "gelu", vocabulary=997, width=300, heads=6, layers=2, feedforward=700, classes=2),
        Model(
            "encoder-features",
            FeatureEncoder,
            {"width": 128, "heads": 2, "layers": 4, "feedforward": 512},
            {"features": Tensor(("batch", "seq", 128))},
            Tensor(BATCH_SEQ),
            "mean_squared_error",
        ),
    ]


def transformers_model(name, architecture, config, layers_key, mask=None, labels=None, **others):
    """`config` is (class name, arguments); `labels` the classes of a sequence, None for a label a token."""
    vocabulary = config[1]["vocab_size"]
    inputs = {"input_ids": Tensor(BATCH_SEQ, "integer", vocabulary)}
    if mask:
        inputs["attention_mask"] = Tensor(BATCH_SEQ, "integer", fill=mask)
    inputs["labels"] = Tensor(("batch",), "integer", labels) if labels else Tensor(BATCH_SEQ, "integer", vocabulary)
    if labels:
        config = (config[0], {**config[1], "num_labels": labels})
    tiny = {layers_key: 1, "vocab_size": min(vocabulary, 512)}
    return Model(
        name, huggingface, {"architecture": architecture, "config": config, **others}, inputs, tiny={"tiny": tiny}
    )


def masked_models():
    def bert(name, architecture, mask, labels=None, frozen=(), **arguments):
        sizes = {"vocab_size": 30522, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
        config = ("BertConfig", {**sizes, "num_hidden_layers": 4, **arguments})
        return transformers_model(
            name, architecture, config, "num_hidden_layers", mask=mask, labels=labels, frozen=frozen
        )

    def t5(name, **arguments):
        sizes = {"vocab_size": 32128, "d_model": 384, "d_kv": 64, "d_ff": 1024, "num_layers": 3, "num_heads": 6}
        config = ("T5Config", {**sizes, "decoder_start_token_id": 0, **arguments})
        return transformers_model(name, "T5ForConditionalGeneration", config, "num_layers", mask="ones")

    classification = "BertForSequenceClassification"
    return [
        bert("bert-small", classification, "ones", labels=2),
        bert("bert-padding", classification, "padding", labels=2),
        bert("bert-eager", classification, "padding", labels=2, attn_implementation="eager"),
        bert("bert-frozen", classification, "ones", labels=2, frozen=("bert.embeddings", "bert.encoder.layer.0")),
        bert("bert-mlm", "BertForMaskedLM", None),
        bert(
            "bert-base",
            classification,
            "ones",
            labels=2,
            hidden_size=768,
            num_attention_heads=12,
            intermediate_size=3072,
            num_hidden_layers=12,
        ),
        transformers_model(
            "roberta",
            "RobertaForSequenceClassification",
            (
                "RobertaConfig",
                {
                    "vocab_size": 50265,
                    "hidden_size": 320,
                    "num_hidden_layers": 3,
                    "num_attention_heads": 5,
                    "intermediate_size": 1280,
                    "max_position_embeddings": 514,
                },
            ),
            "num_hidden_layers",
            mask="padding",
            labels=3,
        ),
        transformers_model(
            "distilbert",
            "DistilBertForMaskedLM",
            ("DistilBertConfig", {"vocab_size": 30522, "dim": 384, "n_layers": 3, "n_heads": 12, "hidden_dim": 1000}),
            "n_layers",
            mask="ones",
        ),
        transformers_model(
            "electra",
            "ElectraForSequenceClassification",
            (
                "ElectraConfig",
                {
                    "vocab_size": 30522,
                    "embedding_size": 128,
                    "hidden_size": 256,
                    "num_hidden_layers": 4,
                    "num_attention_heads": 4,
                    "intermediate_size": 1024,
                },
            ),
            "num_hidden_layers",
            mask="ones",
            labels=4,
        ),
        t5("t5"),
        t5("t5-no-cache", use_cache=False),
        transformers_model(
            "t5-gated",
            "T5ForConditionalGeneration",
            (
                "T5Config",
                {
                    "vocab_size": 5003,
                    "d_model": 200,
                    "d_kv": 40,
                    "d_ff": 555,
                    "num_layers": 2,
                    "num_heads": 5,
                    "feed_forward_proj": "gated-gelu",
                    "tie_word_embeddings": False,
                    "decoder_start_token_id": 0,
                },
            ),
            "num_layers",
        ),
    ]


def causal_models():
    def model(name, family, architecture, layers_key="num_hidden_layers", mask=None, lora=(), **arguments):
        return transformers_model(name, architecture, (family, arguments), layers_key, mask=mask, lora=lora)

    def llama(name, **arguments):
        sizes = {
            "vocab_size": 32000,
            "hidden_size": 512,
            "intermediate_size": 1376,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
        }
        return model(name, "LlamaConfig", "LlamaForCausalLM", **{**sizes, **arguments})

    def gpt2(name, **arguments):
        sizes = {"vocab_size": 50257, "n_embd": 384, "n_layer": 4, "n_head": 6}
        return model(name, "GPT2Config", "GPT2LMHeadModel", "n_layer", **{**sizes, **arguments})

    small = {"num_hidden_layers": 3, "num_attention_heads": 8}
    return [
        gpt2("gpt2-small"),
        gpt2("gpt2-no-cache", use_cache=False),
        gpt2("gpt2-eager", use_cache=False, attn_implementation="eager"),
        gpt2("gpt2", n_embd=768, n_layer=12, n_head=12),
        model(
            "gpt-neox",
            "GPTNeoXConfig",
            "GPTNeoXForCausalLM",
            vocab_size=50432,
            hidden_size=512,
            intermediate_size=2048,
            **small,
        ),
        model(
            "opt",
            "OPTConfig",
            "OPTForCausalLM",
            vocab_size=50272,
            hidden_size=384,
            ffn_dim=1536,
            word_embed_proj_dim=384,
            num_hidden_layers=3,
            num_attention_heads=6,
            mask="ones",
        ),
        llama("llama-small"),
        llama("llama-no-cache", use_cache=False),
        llama("llama-gqa", num_key_value_heads=2, hidden_size=640, num_attention_heads=10, mask="padding"),
        llama("llama-eager", attn_implementation="eager", use_cache=False),
        llama("llama-lora", lora=("q_proj", "v_proj"), use_cache=False),
        llama(
            "llama-1b",
            vocab_size=128256,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            num_key_value_heads=8,
            tie_word_embeddings=True,
        ),
        model(
            "mistral",
            "MistralConfig",
            "MistralForCausalLM",
            vocab_size=32000,
            hidden_size=512,
            intermediate_size=1792,
            head_dim=64,
            num_key_value_heads=2,
            sliding_window=128,
            **small,
        ),
        model(
            "qwen2",
            "Qwen2Config",
            "Qwen2ForCausalLM",
            vocab_size=151936,
            hidden_size=448,
            intermediate_size=1216,
            num_key_value_heads=2,
            num_hidden_layers=3,
            num_attention_heads=14,
            tie_word_embeddings=True,
        ),
        model(
            "qwen3",
            "Qwen3Config",
            "Qwen3ForCausalLM",
            vocab_size=8191,
            hidden_size=512,
            intermediate_size=1536,
            head_dim=128,
            num_key_value_heads=4,
            **small,
        ),
        model(
            "gemma",
            "GemmaConfig",
            "GemmaForCausalLM",
            vocab_size=64000,
            hidden_size=512,
            intermediate_size=2048,
            head_dim=256,
            num_key_value_heads=1,
            num_hidden_layers=2,
            num_attention_heads=4,
        ),
        model(
            "phi",
            "PhiConfig",
            "PhiForCausalLM",
            vocab_size=51200,
            hidden_size=640,
            intermediate_size=2560,
            num_hidden_layers=3,
            num_attention_heads=8,
        ),
    ]


MODELS = {
    model.name: model for model in (*perceptrons(), *encoders(), *masked_models(), *causal_models(), *VISION_MODELS)
}
