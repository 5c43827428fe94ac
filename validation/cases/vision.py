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
        model = getattr(torchvision.models, name)(**arguments)
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
    def __init__(self, channels=3, classes=2, width=32, depth=3):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(
            double_convolution(inputs, outputs) for inputs, outputs in zip([channels, *widths], widths)
        )
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
