"""Part two's models: images and recurrent networks."""

from cases.case import Model, Tensor
from cases.vision import Recurrent, UNet, torchvision_model


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
        {"x": Tensor(("batch", 3, side, side))},
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
]
