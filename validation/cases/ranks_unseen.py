"""The fifth draw of ranks: models that no other list has, over all ways of spreading. Drawn when the rules stood."""

import random

from cases.case import Case, Model, Tensor
from cases.huggingface import huggingface
from cases.models import transformers_model
from cases.parallel import WORLDS
from cases.vision_models import images, segments


def decoder(name, architecture, family, **more):
    sizes = {"vocab_size": 32000, "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8}
    config = {**sizes, "use_cache": False, **more}
    return transformers_model(name, architecture, (f"{family}Config", {key: value for key, value in config.items() if value is not None}), "num_hidden_layers")


def encoder(name, architecture, family, labels=None, mask="ones", **more):
    sizes = {"vocab_size": 30000, "hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 4, "num_attention_heads": 6}
    return transformers_model(name, architecture, (f"{family}Config", {**sizes, **more}), "num_hidden_layers", mask=mask, labels=labels)


def pictures(name, architecture, family, side, classes=100, **config):
    inputs = {"pixel_values": Tensor(("batch", 3, side, side)), "labels": Tensor(("batch",), "integer", classes)}
    return Model(name, huggingface, {"architecture": architecture, "config": (f"{family}Config", {"num_labels": classes, **config})}, inputs, part=2)


# The linear layers of these have the names that tensor parallelism splits, and 8 heads.
SPLIT = ("granite", "cohere", "olmo", "stablelm", "smollm3", "nemotron", "helium", "camembert", "ernie", "dinov2")
# How many cases are spread in which way.
WAYS = {"fsdp2": 11, "ddp": 7, "hsdp": 5, "zero1": 3, "tp": 7, "zero": 14}
PLAIN = ("efficientnet-b1", "regnet-y-400", "densenet169", "mobilenet-v3-large", "fcn-mobile")


def models():
    few = {"num_key_value_heads": 4}
    return [
        decoder("granite", "GraniteForCausalLM", "Granite", embedding_multiplier=12.0, logits_scaling=8.0, **few),
        decoder("cohere", "CohereForCausalLM", "Cohere", vocab_size=48000, num_key_value_heads=8),
        decoder("olmo", "OlmoForCausalLM", "Olmo", vocab_size=50304, pad_token_id=1, eos_token_id=2),
        decoder("stablelm", "StableLmForCausalLM", "StableLm", vocab_size=50304, partial_rotary_factor=0.25, use_qkv_bias=True, **few),
        decoder("smollm3", "SmolLM3ForCausalLM", "SmolLM3", vocab_size=49152, pad_token_id=0, **few),
        decoder("nemotron", "NemotronForCausalLM", "Nemotron", intermediate_size=2048, head_dim=64, pad_token_id=0, **few),
        decoder("helium", "HeliumForCausalLM", "Helium", head_dim=64, num_key_value_heads=8, pad_token_id=0),
        decoder("starcoder2", "Starcoder2ForCausalLM", "Starcoder2", vocab_size=49152, intermediate_size=2048, num_key_value_heads=2),
        transformers_model("codegen", "CodeGenForCausalLM", ("CodeGenConfig", {"vocab_size": 51200, "n_positions": 512, "n_embd": 512, "n_layer": 4, "n_head": 8, "rotary_dim": 32, "use_cache": False}), "n_layer"),
        transformers_model("gpt-bigcode", "GPTBigCodeForCausalLM", ("GPTBigCodeConfig", {"vocab_size": 49152, "n_positions": 512, "n_embd": 512, "n_layer": 4, "n_head": 8, "use_cache": False}), "n_layer"),
        encoder("camembert", "CamembertForMaskedLM", "Camembert", vocab_size=32005, max_position_embeddings=514, hidden_size=512, num_attention_heads=8),
        encoder("ernie", "ErnieForSequenceClassification", "Ernie", labels=3, mask="padding", hidden_size=512, num_attention_heads=8),
        encoder("megatron-bert", "MegatronBertForMaskedLM", "MegatronBert"),
        encoder("rembert", "RemBertForSequenceClassification", "RemBert", labels=2, vocab_size=50000, input_embedding_size=128, output_embedding_size=256),
        encoder("convbert", "ConvBertForSequenceClassification", "ConvBert", labels=2, embedding_size=128),
        transformers_model(
            "marian",
            "MarianMTModel",
            ("MarianConfig", {"vocab_size": 40000, "d_model": 384, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
                              "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "pad_token_id": 39999, "decoder_start_token_id": 39999, "use_cache": False}),
            "encoder_layers",
            mask="ones",
        ),
        pictures("dinov2", "Dinov2ForImageClassification", "Dinov2", 126, hidden_size=384, num_hidden_layers=4, num_attention_heads=8, image_size=126, patch_size=14),
        pictures("resnet-hf", "ResNetForImageClassification", "ResNet", 96, embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"),
        pictures("pool", "PoolFormerForImageClassification", "PoolFormer", 128, hidden_sizes=[64, 128, 256, 384], depths=[2, 2, 3, 2]),
        images("efficientnet-b1", "efficientnet_b1", side=112),
        images("regnet-y-400", "regnet_y_400mf", side=112),
        images("densenet169", "densenet169", side=64),
        images("mobilenet-v3-large", "mobilenet_v3_large", side=128),
        images("vit-b-32", "vit_b_32", side=224),
        segments("fcn-mobile", "lraspp_mobilenet_v3_large", 96, 21),
    ]


def sizes(draw, name):
    """A batch and, for texts, a length."""
    if name in ("dinov2", "resnet-hf", "pool", "vit-b-32", *PLAIN):
        return draw.choice((4, 6, 9, 16, 24)), None
    return draw.choice((2, 3, 4, 6)), draw.choice((64, 77, 128, 200, 256))


def one_way(draw, case, way, is_text):
    """The settings of a way for a drawn case."""
    case.update(parallel=way, world=draw.choice(WORLDS))
    if is_text and draw.random() < 0.3:
        case["checkpoint"] = "blocks"
    if draw.random() < 0.3:
        case["accumulate"] = draw.choice((2, 3))
    if way == "tp":
        case.update(world=draw.choice((2, 4)), optimizer=draw.choice(("adamw", "sgd", "momentum")))
    elif way in ("ddp", "zero1"):
        case.update(gradient_as_bucket_view=draw.random() < 0.4, clip_grad=draw.random() < 0.3)
        if way == "ddp":
            case.update(optimizer=draw.choice(("adamw", "adamw", "momentum", "adagrad")), optimizer_impl=draw.choice(("default", "fused")))
            case["optimizer_impl"] = case["optimizer_impl"] if case["optimizer"] == "adamw" else "default"
    elif way == "zero":
        case.update(parallel=f"deepspeed:{draw.choice((1, 2, 2, 3, 3, 3))}", amp="none", dtype=draw.choice(("fp32", "bf16", "bf16", "fp16")) if is_text else case["dtype"])
        case.update(reduce_bucket_size=draw.choice((2_000_000, 20_000_000, 50_000_000, 500_000_000)), overlap_comm=draw.choice(("default", "true", "false")))
        case.update(optimizer=draw.choice(("adamw", "adamw", "sgd", "momentum")), optimizer_state=draw.choice(("gpu", "gpu", "cpu")))
        case["cpu_offload"] = case["parallel"] == "deepspeed:3" and draw.random() < 0.5
    else:
        if way == "hsdp":
            copies, shards = draw.choice((2, 4)), draw.choice((2, 4, 8))
            case.update(parallel=f"hsdp:{copies}x{shards}", world=copies * shards)
        # PoolFormer's blocks are in lists of lists, which `fully_shard` does not take.
        case["shard"] = "none" if case["model"] == "pool" else "blocks"
        case.update(reshard_after_forward=draw.choices(("default", "true", "false"), (6, 1, 2))[0], clip_grad=draw.random() < 0.3)
        if case["dtype"] == "fp32" and case["amp"] == "none" and draw.random() < 0.5:
            case.update(param_dtype="bf16", reduce_dtype=draw.choice(("none", "fp32")))
        case.update(cpu_offload=draw.random() < 0.2, no_sync=draw.choice(("default", "true")))
        case.update(optimizer=draw.choice(("adamw", "adamw", "momentum")), optimizer_impl=draw.choice(("default", "default", "for-loop")))
    return case


def cases(seed=27):
    """Each model once or twice, with the ways in an order drawn at random; tensor parallelism for models that it splits."""
    draw = random.Random(seed)
    names = [model.name for model in models()]
    ways = [way for way, count in WAYS.items() for _ in range(count)]
    draw.shuffle(ways)
    left = draw.sample(names, len(names)) + draw.sample(names, len(names))
    for number, way in enumerate(ways):
        name = next(name for name in left if way != "tp" or name in SPLIT)
        left.remove(name)
        batch, seq = sizes(draw, name)
        case = {"model": name, "batch": batch, "seq": seq, "dtype": draw.choice(("fp32", "fp32", "bf16"))}
        case["amp"] = draw.choice(("none", "bf16")) if case["dtype"] == "fp32" else "none"
        case["inputs"] = draw.choice(("kept", "fresh"))
        # Batch norm does not take another type than its own statistics.
        if seq is None and name not in ("dinov2", "vit-b-32", "pool"):
            case["dtype"] = "fp32"
        yield Case(f"drawn-new-{number:02}", **one_way(draw, case, way, seq is not None))
