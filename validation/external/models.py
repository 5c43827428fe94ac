"""The models of the runs, as their authors built them: from configurations, with random weights."""

import torch


def image_net(constructor, classes, side):
    def build():
        import torchvision

        # Some constructors compute with tensors, which the meta device cannot.
        return getattr(torchvision.models, constructor)(weights=None, num_classes=classes).to("meta")

    return build, {"x": (torch.float32, ("batch", 3, side, side))}, (torch.int64, ("batch",))


def language_model(config, **settings):
    def build():
        import transformers

        made = getattr(transformers, config)(**settings)
        family = transformers.AutoModelForSeq2SeqLM if made.is_encoder_decoder else transformers.AutoModelForCausalLM
        with torch.device("meta"):
            return family.from_config(made)

    tokens = (torch.int64, ("batch", "seq"))
    return build, {"input_ids": tokens, "attention_mask": tokens, "labels": tokens}, None


def gpt2(**settings):
    return language_model("GPT2Config", **settings)


CIFAR_SIDE = 86
# Name in the runs: how to build it, its inputs, its targets.
MODELS = {
    **{
        name: image_net(constructor, classes, CIFAR_SIDE)
        for name, constructor, classes in (
            ("ConvNeXtBase", "convnext_base", 1000),
            ("ConvNeXtTiny", "convnext_tiny", 1000),
            ("MnasNet", "mnasnet1_0", 10),
            ("MobeNetV3Small", "mobilenet_v3_small", 10),
            ("MobeNetV3Large", "mobilenet_v3_large", 10),
            ("MobileNetV2", "mobilenet_v2", 1000),
            ("RegNetX400MF", "regnet_x_400mf", 1000),
            ("RegNetY400MF", "regnet_y_400mf", 1000),
            ("ResNet101", "resnet101", 1000),
            ("ResNet152", "resnet152", 1000),
            ("VGG16", "vgg16", 1000),
            ("VGG19", "vgg19", 1000),
        )
    },
    "openai-community/gpt2": gpt2(),
    "distilbert/distilgpt2": gpt2(n_layer=6),
    "cerebras/Cerebras-GPT-111M": gpt2(
        n_layer=10, n_inner=3072, n_positions=2048, activation_function="gelu", attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0
    ),
    "EleutherAI/gpt-neo-125M": language_model(
        "GPTNeoConfig", hidden_size=768, num_layers=12, num_heads=12, attention_types=[[["global", "local"], 6]]
    ),
    "facebook/opt-125m": language_model("OPTConfig"),
    "T5-small": language_model("T5Config", d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": language_model(
        "Qwen2Config", hidden_size=1536, intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
        vocab_size=151936, max_position_embeddings=131072, rope_theta=10000, sliding_window=4096, max_window_layers=21,
    ),
}
