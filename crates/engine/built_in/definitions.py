"""The built-in models: what each is, how it is built with random weights, what it is given.

Sizes are those of the published models; `parameters` is the published count, which the captured one must equal.
"""

from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import torch
from torch import nn
from torch.nn import functional

IMAGES = ("batch", 3, "height", "width")
TOKENS = ("batch", "seq")


@dataclass(frozen=True)
class Tensor:
    """An input or target: names of sizes and numbers, with the example's values; `high` makes it integers below that."""

    shape: tuple
    high: Optional[int] = None
    ones: bool = False

    def example(self, sizes):
        shape = [sizes.get(size, size) for size in self.shape]
        if self.ones:
            return torch.ones(shape, dtype=torch.int64)
        return torch.randint(0, self.high, shape) if self.high else torch.randn(shape)


@dataclass(frozen=True)
class BuiltIn:
    """A row of `vramfit models`."""

    name: str
    family: str
    task: str
    parameters: int
    build: Callable[[], nn.Module]
    inputs: dict
    sizes: dict
    targets: Any = None
    loss: Optional[Callable] = None
    version: Optional[str] = None
    config: Optional[dict] = None  # of Hugging Face, where vramfit itself makes the model of it
    limits: dict = field(default_factory=dict)  # sizes beyond which PyTorch stops: a Rust test finds them too


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets)


def token_cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def segmentation(outputs, targets):
    """torchvision's reference training: the auxiliary head counts half."""
    return functional.cross_entropy(outputs["out"], targets) + 0.5 * functional.cross_entropy(outputs["aux"], targets)


def torchvision_network(name, **arguments):
    import torchvision

    try:
        return torchvision.models.get_model(name, weights=None, **arguments)
    except NotImplementedError:
        # Some networks read numbers from small tensors while they are built, which the meta device cannot.
        with torch.device("cpu"):
            return torchvision.models.get_model(name, weights=None, **arguments).to("meta")


def image_model(name, family, parameters, network, side=224, fixed=False, batch=32):
    """`fixed`: the network takes images of that side only."""
    shape = ("batch", 3, side, side) if fixed else IMAGES
    sizes = {"batch": batch} if fixed else {"batch": batch, "height": side, "width": side}
    return BuiltIn(name, family, "image classification", parameters, lambda: torchvision_network(network),
                   {"x": Tensor(shape)}, sizes, Tensor(("batch",), 1000), cross_entropy)


def hugging_face(architecture, config, **arguments):
    import transformers

    return getattr(transformers, architecture)(getattr(transformers, config)(**arguments))


def causal(name, family, version, parameters, batch=1, seq=1024, architecture=None, **config):
    prefix = architecture or f"{family}ForCausalLM"
    known = {"model_type": family.lower(), "architectures": [prefix], **config}
    tokens = Tensor(TOKENS, config["vocab_size"])
    kind = family if architecture is None else architecture.removesuffix("LMHeadModel")
    return BuiltIn(name, DISPLAY.get(kind, kind), "language modelling", parameters,
                   lambda: hugging_face(prefix, f"{kind}Config", **config),
                   {"input_ids": tokens, "labels": tokens}, {"batch": batch, "seq": seq}, version=version,
                   config=known if family in ("Llama", "Mistral", "Qwen2", "GPT2") else None,
                   limits={"seq": config["n_positions"]} if "n_positions" in config else {})


DISPLAY = {"GPT2": "GPT-2", "GPTNeoX": "GPT-NeoX", "Phi3": "Phi", "Qwen2": "Qwen", "Qwen3": "Qwen"}


def classifier(name, family, parameters, batch=32, seq=128, **config):
    tokens = Tensor(TOKENS, config["vocab_size"])
    inputs = {"input_ids": tokens, "attention_mask": Tensor(TOKENS, ones=True), "labels": Tensor(("batch",), 2)}
    known = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "num_labels": 2, **config}
    display = {"Bert": "BERT", "Roberta": "RoBERTa", "DistilBert": "DistilBERT"}[family]
    return BuiltIn(name, display, "sequence classification", parameters,
                   lambda: hugging_face(f"{family}ForSequenceClassification", f"{family}Config", num_labels=2, **config),
                   inputs, {"batch": batch, "seq": seq}, config=known if family == "Bert" else None, limits={"seq": 512})


def t5(name, parameters, batch, **config):
    config = {"vocab_size": 32128, "decoder_start_token_id": 0, **config}
    return BuiltIn(name, "T5", "text to text", parameters,
                   lambda: hugging_face("T5ForConditionalGeneration", "T5Config", **config),
                   {"input_ids": Tensor(TOKENS, 32128), "labels": Tensor(("batch", "seq_labels"), 32128)},
                   {"batch": batch, "seq": 512, "seq_labels": 128})


class Clip(nn.Module):
    """CLIP as it is trained: with its contrastive loss."""

    def __init__(self, text, vision):
        super().__init__()
        import transformers

        self.clip = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision))

    def forward(self, input_ids, pixel_values):
        return self.clip(input_ids=input_ids, pixel_values=pixel_values, return_loss=True)


def whisper(name, parameters, batch, width, heads, layers):
    config = {"vocab_size": 51865, "d_model": width, "encoder_layers": layers, "decoder_layers": layers,
              "encoder_attention_heads": heads, "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * width,
              "decoder_ffn_dim": 4 * width}
    return BuiltIn(name, "Whisper", "speech to text", parameters,
                   lambda: hugging_face("WhisperForConditionalGeneration", "WhisperConfig", **config),
                   {"input_features": Tensor(("batch", 80, 3000)), "labels": Tensor(TOKENS, 51865)},
                   {"batch": batch, "seq": 128}, limits={"seq": 448})


class Recurrent(nn.Module):
    """An embedding, a recurrent network, a classifier of each token."""

    def __init__(self, kind, vocabulary, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = getattr(nn, kind)(width, width, layers, batch_first=True, dropout=0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        outputs, _ = self.recurrent(self.embedding(tokens))
        return self.head(outputs)


def recurrent(name, kind, parameters):
    tokens = Tensor(TOKENS, 33278)  # WikiText-2's vocabulary
    return BuiltIn(name, kind, "word language modelling", parameters,
                   lambda: Recurrent(kind, 33278, 650, 2), {"tokens": tokens}, {"batch": 20, "seq": 35}, tokens,
                   token_cross_entropy, "2 layers of 650 units")


def double_convolution(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """The U-Net of the paper's widths, with padding and batch norm as it is used today."""

    def __init__(self, channels=3, classes=2, width=64, depth=4):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            double_convolution(inputs, outputs) for inputs, outputs in zip([channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, wide // 2, 2, stride=2) for wide in reversed(widths[1:]))
        self.merge = nn.ModuleList(double_convolution(wide, wide // 2) for wide in reversed(widths[1:]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for position, block in enumerate(self.down):
            x = block(x if position == 0 else functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


def dense_targets(classes):
    return Tensor(("batch", "height", "width"), classes)


BUILT_IN = [
    image_model("resnet18", "ResNet", 11_689_512, "resnet18"),
    image_model("resnet34", "ResNet", 21_797_672, "resnet34"),
    image_model("resnet50", "ResNet", 25_557_032, "resnet50"),
    image_model("resnet101", "ResNet", 44_549_160, "resnet101"),
    image_model("resnet152", "ResNet", 60_192_808, "resnet152"),
    image_model("vgg16", "VGG", 138_357_544, "vgg16"),
    image_model("densenet121", "DenseNet", 7_978_856, "densenet121"),
    image_model("mobilenet-v2", "MobileNet", 3_504_872, "mobilenet_v2"),
    image_model("mobilenet-v3-large", "MobileNet", 5_483_032, "mobilenet_v3_large"),
    image_model("efficientnet-b0", "EfficientNet", 5_288_548, "efficientnet_b0"),
    image_model("efficientnet-b4", "EfficientNet", 19_341_616, "efficientnet_b4", side=380),
    image_model("efficientnet-v2-s", "EfficientNet", 21_458_488, "efficientnet_v2_s", side=384),
    image_model("convnext-tiny", "ConvNeXt", 28_589_128, "convnext_tiny"),
    image_model("convnext-base", "ConvNeXt", 88_591_464, "convnext_base"),
    image_model("vit-b-16", "ViT", 86_567_656, "vit_b_16", fixed=True),
    image_model("vit-l-16", "ViT", 304_326_632, "vit_l_16", fixed=True),
    image_model("swin-t", "Swin", 28_288_354, "swin_t", fixed=True),
    image_model("swin-b", "Swin", 87_768_224, "swin_b", fixed=True),
    BuiltIn("deeplab", "DeepLab", "segmentation, 21 classes", 42_004_074,
            lambda: torchvision_network("deeplabv3_resnet50", weights_backbone=None, aux_loss=True, num_classes=21),
            {"x": Tensor(IMAGES)}, {"batch": 8, "height": 480, "width": 480}, dense_targets(21), segmentation, "ResNet-50"),
    BuiltIn("unet", "U-Net", "segmentation, 2 classes", 31_037_698, UNet,
            {"x": Tensor(("batch", 3, 512, 512))}, {"batch": 4}, Tensor(("batch", 512, 512), 2), cross_entropy),
    classifier("bert-base", "Bert", 109_483_778, vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
               intermediate_size=3072),
    classifier("bert-large", "Bert", 335_143_938, vocab_size=30522, hidden_size=1024,
               num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    classifier("roberta-base", "Roberta", 124_647_170, vocab_size=50265,
               max_position_embeddings=514, type_vocab_size=1),
    classifier("roberta-large", "Roberta", 355_361_794, vocab_size=50265,
               max_position_embeddings=514, type_vocab_size=1, hidden_size=1024, num_hidden_layers=24,
               num_attention_heads=16, intermediate_size=4096),
    classifier("distilbert", "DistilBert", 66_955_010, vocab_size=30522),
    causal("gpt2", "GPT2", None, 124_439_808, 8, 512, "GPT2LMHeadModel", vocab_size=50257, n_positions=1024,
           n_embd=768, n_layer=12, n_head=12),
    causal("gpt2-medium", "GPT2", None, 354_823_168, 4, 1024, "GPT2LMHeadModel", vocab_size=50257, n_positions=1024,
           n_embd=1024, n_layer=24, n_head=16),
    causal("gpt2-large", "GPT2", None, 774_030_080, 2, 1024, "GPT2LMHeadModel", vocab_size=50257, n_positions=1024,
           n_embd=1280, n_layer=36, n_head=20),
    causal("gpt2-xl", "GPT2", None, 1_557_611_200, 1, 1024, "GPT2LMHeadModel", vocab_size=50257, n_positions=1024,
           n_embd=1600, n_layer=48, n_head=25),
    causal("pythia-160m", "GPTNeoX", None, 162_322_944, 4, 1024, vocab_size=50304, hidden_size=768,
           num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, rotary_pct=0.25),
    causal("llama-1b", "Llama", "Llama 3.2", 1_235_814_400, 2, 512, vocab_size=128256, hidden_size=2048,
           intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
           tie_word_embeddings=True),
    causal("llama-3b", "Llama", "Llama 3.2", 3_212_749_824, vocab_size=128256, hidden_size=3072,
           intermediate_size=8192, num_hidden_layers=28, num_attention_heads=24, num_key_value_heads=8,
           tie_word_embeddings=True),
    causal("llama-7b", "Llama", "Llama 2", 6_738_415_616, vocab_size=32000, hidden_size=4096,
           intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=32),
    causal("llama-8b", "Llama", "Llama 3.1", 8_030_261_248, vocab_size=128256, hidden_size=4096,
           intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8),
    causal("llama-13b", "Llama", "Llama 2", 13_015_864_320, vocab_size=32000, hidden_size=5120,
           intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=40),
    causal("llama-70b", "Llama", "Llama 3.1", 70_553_706_496, vocab_size=128256, hidden_size=8192,
           intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8),
    causal("mistral-7b", "Mistral", "v0.3", 7_248_023_552, vocab_size=32768, hidden_size=4096,
           intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
           sliding_window=None),
    causal("qwen2-0.5b", "Qwen2", "Qwen2.5", 494_032_768, 2, 256, vocab_size=151936, hidden_size=896,
           intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
           tie_word_embeddings=True),
    causal("qwen2-1.5b", "Qwen2", "Qwen2.5", 1_543_714_304, vocab_size=151936, hidden_size=1536,
           intermediate_size=8960, num_hidden_layers=28, num_attention_heads=12, num_key_value_heads=2,
           tie_word_embeddings=True),
    causal("qwen2-3b", "Qwen2", "Qwen2.5", 3_085_938_688, vocab_size=151936, hidden_size=2048,
           intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2,
           tie_word_embeddings=True),
    causal("qwen2-7b", "Qwen2", "Qwen2.5", 7_615_616_512, vocab_size=152064, hidden_size=3584,
           intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4),
    causal("qwen3-0.6b", "Qwen3", "Qwen3", 596_049_920, vocab_size=151936, hidden_size=1024,
           intermediate_size=3072, head_dim=128, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
           tie_word_embeddings=True),
    causal("gemma-2b", "Gemma", None, 2_506_172_416, vocab_size=256000, hidden_size=2048,
           intermediate_size=16384, num_hidden_layers=18, num_attention_heads=8, num_key_value_heads=1, head_dim=256),
    causal("gemma-7b", "Gemma", None, 8_537_680_896, vocab_size=256000, hidden_size=3072,
           intermediate_size=24576, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=16, head_dim=256),
    causal("phi-2", "Phi", None, 2_779_683_840, vocab_size=51200, hidden_size=2560,
           intermediate_size=10240, num_hidden_layers=32, num_attention_heads=32, partial_rotary_factor=0.4,
           resid_pdrop=0.1),
    causal("phi-3-mini", "Phi3", None, 3_821_079_552, vocab_size=32064, hidden_size=3072,
           intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32, pad_token_id=32000,
           sliding_window=None),
    t5("t5-small", 60_506_624, 8),
    t5("t5-base", 222_903_552, 8, d_model=768, d_ff=3072, num_layers=12, num_heads=12),
    t5("t5-large", 737_668_096, 4, d_model=1024, d_ff=4096, num_layers=24, num_heads=16),
    BuiltIn("clip-vit-b-32", "CLIP", "images and texts, contrastive loss", 151_277_313,
            lambda: Clip({"vocab_size": 49408}, {"patch_size": 32}),
            {"input_ids": Tensor(("batch", 77), 49408), "pixel_values": Tensor(("batch", 3, 224, 224))}, {"batch": 64}),
    whisper("whisper-tiny", 37_760_640, 16, 384, 6, 4),
    whisper("whisper-base", 72_593_920, 16, 512, 8, 6),
    whisper("whisper-small", 241_734_912, 8, 768, 12, 12),
    recurrent("lstm", "LSTM", 50_065_078),
    recurrent("gru", "GRU", 48_372_478),
]
