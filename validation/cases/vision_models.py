"""Part two's models: images and recurrent networks."""

from cases.case import Model, Tensor
from cases.huggingface import huggingface
from cases.vision import Decoder, Recurrent, Signal, UNet, torchvision_model


def images(name, network, side=64, classes=1000, channels_last=False, **arguments):
    keyword = "x"
    image = Tensor(("batch", 3, side, side), fill="channels-last" if channels_last else "random")
    return Model(
        name,
        torchvision_model,
        {"name": network, "channels_last": channels_last, **arguments},
        {keyword: image},
        Tensor(("batch",), "integer", classes),
        "cross_entropy",
        part=2,
    )


def segments(name, network, side, classes, **arguments):
    return Model(
        name,
        torchvision_model,
        {"name": network, "num_classes": classes, **arguments},
        {"input" if network.startswith("lraspp") else "x": Tensor(("batch", 3, side, side))},
        Tensor(("batch", side, side), "integer", classes),
        "segmentation",
        part=2,
    )


def tokens(name, **arguments):
    return Model(
        name,
        Recurrent,
        arguments,
        {"tokens": Tensor(("batch", "seq"), "integer", arguments["vocabulary"])},
        Tensor(("batch", "seq"), "integer", arguments["vocabulary"]),
        "token_cross_entropy",
        part=2,
    )


VISION_MODELS = [
    images("resnet18", "resnet18", side=128),
    images("resnet50", "resnet50", side=160),
    images("resnet50-channels-last", "resnet50", side=160, channels_last=True),
    images("vgg11", "vgg11", side=128),
    images("mobilenet-v3", "mobilenet_v3_small", side=127),
    images("efficientnet-b0", "efficientnet_b0", side=128),
    images("convnext-tiny", "convnext_tiny", side=96),
    images("vit-b-16", "vit_b_16", side=224),
    segments("fcn", "fcn_resnet50", 96, 21, aux_loss=True),
    segments("deeplab", "deeplabv3_resnet50", 96, 21),
    Model(
        "unet",
        UNet,
        {"width": 32, "depth": 3},
        {"x": Tensor(("batch", 3, 96, 96))},
        Tensor(("batch", 96, 96), "integer", 2),
        "cross_entropy",
        part=2,
    ),
    tokens("lstm", kind="LSTM", vocabulary=5000, width=200, hidden=300, layers=2, dropout=0.2),
    tokens("lstm-bidirectional", kind="LSTM", vocabulary=1000, width=128, hidden=256, layers=2, bidirectional=True),
    tokens("gru", kind="GRU", vocabulary=5000, width=256, hidden=256, layers=1),
    images("resnext50", "resnext50_32x4d", side=128),
    images("regnet-y", "regnet_y_800mf", side=128),
    images("densenet121", "densenet121", side=96),
    images("mobilenet-v2", "mobilenet_v2", side=128),
    images("shufflenet", "shufflenet_v2_x1_0", side=128),
    images("squeezenet", "squeezenet1_1", side=160),
    images("mnasnet", "mnasnet1_0", side=112),
    images("efficientnet-v2-s", "efficientnet_v2_s", side=128),
    images("vgg16-bn", "vgg16_bn", side=64),
    images("alexnet", "alexnet", side=224),
    images("googlenet", "googlenet", side=128, aux_logits=False, init_weights=False),
    images("swin-t", "swin_t", side=224),
    images("maxvit-t", "maxvit_t", side=224),
    images("wide-resnet50-channels-last", "wide_resnet50_2", side=96, channels_last=True),
    segments("lraspp", "lraspp_mobilenet_v3_large", 128, 21),
    Model(
        "unet-channels-last",
        UNet,
        {"width": 24, "depth": 4, "channels_last": True},
        {"x": Tensor(("batch", 3, 128, 128), fill="channels-last")},
        Tensor(("batch", 128, 128), "integer", 2),
        "cross_entropy",
        part=2,
    ),
    Model(
        "decoder",
        Decoder,
        {},
        {"x": Tensor(("batch", 3, 96, 96))},
        Tensor(("batch", 96, 96), "integer", 5),
        "cross_entropy",
        part=2,
    ),
    Model("signal", Signal, {}, {"x": Tensor(("batch", 1, 16000))}, Tensor(("batch",), "integer", 35), "cross_entropy", part=2),
    Model(
        "r3d-18",
        torchvision_model,
        {"name": "r3d_18", "num_classes": 400},
        {"x": Tensor(("batch", 3, 8, 64, 64))},
        Tensor(("batch",), "integer", 400),
        "cross_entropy",
        part=2,
    ),
    Model(
        "vit-hf",
        huggingface,
        {
            "architecture": "ViTForImageClassification",
            "config": ("ViTConfig", {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "num_labels": 100}),
        },
        {"pixel_values": Tensor(("batch", 3, 224, 224)), "labels": Tensor(("batch",), "integer", 100)},
        part=2,
    ),
    Model(
        "convnext-hf",
        huggingface,
        {
            "architecture": "ConvNextForImageClassification",
            "config": ("ConvNextConfig", {"depths": [2, 2, 4, 2], "num_labels": 100, "image_size": 128, "drop_path_rate": 0.0}),
        },
        {"pixel_values": Tensor(("batch", 3, 128, 128)), "labels": Tensor(("batch",), "integer", 100)},
        part=2,
    ),
    Model(
        "whisper",
        huggingface,
        {
            "architecture": "WhisperForConditionalGeneration",
            "config": (
                "WhisperConfig",
                {"d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6,
                 "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "use_cache": False},
            ),
        },
        {"input_features": Tensor(("batch", 80, 3000)), "labels": Tensor(("batch", "seq"), "integer", 51865)},
        part=2,
    ),
    tokens("rnn", kind="RNN", vocabulary=2000, width=128, hidden=200, layers=2),
    tokens("gru-deep", kind="GRU", vocabulary=2000, width=300, hidden=512, layers=3, dropout=0.3, bidirectional=True),
]
