"""GPUMemNet's networks, Liger-Kernel's eager references and a BERT of Hugging Face's documentation."""

import torch
from torch import nn


def image_net(library, constructor, side, **options):
    def build():
        if library == "timm":
            import timm

            return timm.create_model(constructor, num_classes=1000).to("meta")
        import torchvision

        return getattr(torchvision.models, constructor)(weights=None, **options).to("meta")

    return build, {"x": (torch.float32, ("batch", 3, side, side))}, (torch.int64, ("batch",))


class Encoder(nn.Module):
    """GPUMemNet's "standard" transformer."""

    def __init__(self, vocabulary, width, layers, heads, inner, length, classes):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(1, length, width))
        layer = nn.TransformerEncoderLayer(width, heads, inner, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x) + self.positions).mean(dim=1))


def encoder(vocabulary, width, layers, heads, inner, length, classes):
    def build():
        with torch.device("meta"):
            return Encoder(vocabulary, width, layers, heads, inner, length, classes)

    return build, {"x": (torch.int64, ("batch", length))}, (torch.int64, ("batch",))


class OnParameter(nn.Module):
    """A module whose input is a leaf that requires grad, as in Liger-Kernel's benchmarks. `beside` is what else the script holds."""

    def __init__(self, module, shape, dtype=torch.float32, beside=None):
        super().__init__()
        self.module, self.beside = module, beside
        self.x = nn.Parameter(torch.empty(shape, dtype=dtype))

    def forward(self):
        return self.module(self.x)


def norm(make, shape):
    def build():
        with torch.device("meta"):
            # The scripts build Liger's own module beside PyTorch's; it has the same parameters and is not called.
            return OnParameter(make(), shape, beside=make())

    return build, {}, None


class CrossEntropy(nn.Module):
    def __init__(self, rows, classes):
        super().__init__()
        self.x = nn.Parameter(torch.empty(rows, classes))

    def forward(self, target):
        return {"loss": nn.functional.cross_entropy(self.x, target)}


def cross_entropy(rows, classes):
    def build():
        with torch.device("meta"):
            return CrossEntropy(rows, classes)

    return build, {"target": (torch.int64, (rows,))}, None


def llama_mlp(batch, length, width, inner, activation):
    def build():
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaMLP

        config = LlamaConfig(hidden_size=width, intermediate_size=inner, hidden_act=activation)
        with torch.device("meta"):
            return OnParameter(LlamaMLP(config).to(torch.bfloat16), (batch, length, width), torch.bfloat16)

    return build, {}, None


def bert_large():
    def build():
        from transformers import AutoModelForSequenceClassification, BertConfig

        # transformers 4.15 had only the eager attention.
        config = BertConfig(
            hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, attn_implementation="eager"
        )
        with torch.device("meta"):
            return AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")

    return build, {"input_ids": (torch.int64, ("batch", "seq")), "labels": (torch.int64, ("batch",))}, None


MODELS = {
    "gpumemnet-resnet50": image_net("torchvision", "resnet50", 224),
    "gpumemnet-vgg16": image_net("torchvision", "vgg16", 224),
    "gpumemnet-mobilenet_v2": image_net("torchvision", "mobilenet_v2", 224),
    "gpumemnet-efficientnet_b0": image_net("torchvision", "efficientnet_b0", 224),
    "gpumemnet-inception_v3": image_net("torchvision", "inception_v3", 299, aux_logits=False, init_weights=False),
    "gpumemnet-xception": image_net("timm", "legacy_xception", 224),
    # line of trans_data.csv: vocabulary, width, layers, heads, inner width, length, classes
    **{
        f"gpumemnet-encoder-{line}": encoder(*sizes)
        for line, sizes in (
            (2, (553893, 128, 8, 8, 332, 512, 273)),
            (3, (267646, 128, 9, 2, 344, 256, 570)),
            (4, (700962, 768, 2, 8, 1663, 512, 553)),
            (5, (610502, 512, 9, 8, 1628, 128, 688)),
            (6, (767553, 1024, 5, 8, 2886, 512, 265)),
            (7, (334696, 128, 10, 8, 487, 512, 521)),
            (8, (952559, 768, 6, 16, 2719, 256, 618)),
            (9, (608949, 768, 3, 8, 2575, 256, 503)),
            (10, (482062, 128, 4, 8, 404, 512, 948)),
        )
    },
    "bert-large": bert_large(),
    **{
        f"liger-layer_norm-{width}": norm(lambda width=width: nn.LayerNorm(width, eps=1e-6), (4096, width))
        for width in (1024, 2048, 4096, 8192, 16384)
    },
    **{
        f"liger-group_norm-{channels}": norm(
            lambda channels=channels: nn.GroupNorm(channels // 4, channels, eps=1e-6), (128, channels, 512)
        )
        for channels in (32, 64, 128, 256, 512, 1024, 2048)
    },
    **{f"liger-cross_entropy-{classes}": cross_entropy(8 * 2048, classes) for classes in (4096, 8192, 16384, 32768, 65536, 131072)},
    **{
        f"liger-geglu-{length}": llama_mlp(8, length, 4096, 11008, "gelu_pytorch_tanh") for length in (1024, 2048, 4096, 8192)
    },
    **{
        f"liger-tiled_{name}-{length}": llama_mlp(2, length, 2048, 4096, activation)
        for name, activation in (("geglu", "gelu_pytorch_tanh"), ("swiglu", "silu"))
        for length in (1024, 2048, 4096, 8192, 16384)
    },
}
