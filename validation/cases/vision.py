"""Part two: convolutions, recurrent networks, vision transformers."""

import torch
from torch import nn
from torch.nn import functional


def torchvision_model(name, channels_last=False, **arguments):
    import torchvision

    if name.startswith(("fcn", "deeplab", "lraspp")):
        arguments = {"weights": None, "weights_backbone": None, **arguments}
        model = getattr(torchvision.models.segmentation, name)(**arguments)
    else:
        try:
            model = torchvision.models.get_model(name, **arguments)
        except NotImplementedError:
            # Some networks read numbers from small tensors while they are built, which the meta device cannot.
            with torch.device("cpu"):
                model = torchvision.models.get_model(name, **arguments)
            model = model.to("meta")
    return model.to(memory_format=torch.channels_last) if channels_last else model


class Recurrent(nn.Module):
    """An embedding, a cuDNN recurrent layer, a token classifier."""

    def __init__(self, kind, vocabulary, width, hidden, layers, bidirectional=False, dropout=0.0):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = getattr(nn, kind)(
            width, hidden, layers, batch_first=True, bidirectional=bidirectional, dropout=dropout
        )
        self.head = nn.Linear(hidden * (2 if bidirectional else 1), vocabulary)

    def forward(self, tokens):
        outputs, _ = self.recurrent(self.embedding(tokens))
        return self.head(outputs)


def double_convolution(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, channels=3, classes=2, width=32, depth=3, channels_last=False):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            double_convolution(inputs, outputs) for inputs, outputs in zip([channels, *widths], widths)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(wide, wide // 2, 2, stride=2) for wide in reversed(widths[1:]))
        self.merge = nn.ModuleList(double_convolution(wide, wide // 2) for wide in reversed(widths[1:]))
        self.head = nn.Conv2d(width, classes, 1)
        if channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, x):
        skips = []
        for position, block in enumerate(self.down):
            x = block(x if position == 0 else functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


class Decoder(nn.Module):
    """Group, instance and local norms, grouped and dilated layers, several ways to resize, average pools."""

    def __init__(self, width=48, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 5, stride=2, padding=2), nn.GroupNorm(8, width), nn.SiLU())
        self.wide = nn.Sequential(nn.Conv2d(width, width * 2, 3, padding=1, groups=4), nn.InstanceNorm2d(width * 2, affine=True), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(width * 2, width * 4, 3, padding=2, dilation=2), nn.GroupNorm(16, width * 4), nn.SiLU())
        self.shuffle = nn.Sequential(nn.Conv2d(width * 4, width * 4, 1), nn.PixelShuffle(2), nn.GELU())
        self.grow = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.head = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, x):
        x = self.wide(self.stem(x))
        x = self.shuffle(self.deep(functional.avg_pool2d(x, 2)))
        x = functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = self.grow(functional.avg_pool2d(x, 5, stride=4, padding=2))
        return self.head(functional.interpolate(x, scale_factor=2, mode="nearest"))


class Signal(nn.Module):
    """One-dimensional convolutions, batch norm, pools; a classifier of sound."""

    def __init__(self, classes=35, width=64):
        super().__init__()
        layers, inputs = [], 1
        for outputs, kernel, stride in ((width, 80, 16), (width, 3, 1), (width * 2, 3, 1), (width * 4, 3, 1)):
            layers += [nn.Conv1d(inputs, outputs, kernel, stride), nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(4)]
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.layers(x).mean(-1))
