"""Lists the convolutions that common models make, most at images of 224 x 224: the layers worth recording.

Needs torch and torchvision, no GPU: models run on the meta device; some minutes. Writes layers.json.gz and, for images of several sizes,
layers-by-side.json.gz: per layer [input spatial sizes, input channels, output channels, kernel, stride, padding, dilation, groups, is it transposed,
how many models have it].
"""

import collections
import gzip
import itertools
import json
import sys
from pathlib import Path

import torch
import torchvision
from torch import nn

SIDE = 224
SIDES = (128, 64, 32, 96, 256, 160, 192, 112)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
SKIPPED = ("rcnn", "fcos", "retinanet", "ssd", "raft", "swin3d", "mvit")
VIDEO = ("r3d_18", "mc3_18", "r2plus1d_18", "s3d")


def double(inputs, outputs, norm):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm), nn.Conv2d(outputs, outputs, 3, padding=1))


class UNet(nn.Module):
    def __init__(self, width, depth, channels=3, classes=2):
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(double(i, o, True) for i, o in zip([channels, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(w, w // 2, 2, stride=2) for w in reversed(widths[1:]))
        self.merge = nn.ModuleList(double(w, w // 2, True) for w in reversed(widths[1:]))
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = []
        for position, block in enumerate(self.down):
            x = block(x if position == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


class Generator(nn.Module):
    """DCGAN's two halves."""

    def __init__(self, width=64):
        super().__init__()
        w = width
        self.make = nn.Sequential(
            nn.ConvTranspose2d(100, w * 8, 4, 1, 0), nn.ConvTranspose2d(w * 8, w * 4, 4, 2, 1),
            nn.ConvTranspose2d(w * 4, w * 2, 4, 2, 1), nn.ConvTranspose2d(w * 2, w, 4, 2, 1),
            nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Conv2d(3, w, 4, 2, 1), nn.Conv2d(w, w * 2, 4, 2, 1),
            nn.Conv2d(w * 2, w * 4, 4, 2, 1), nn.Conv2d(w * 4, w * 8, 4, 2, 1), nn.Conv2d(w * 8, 1, 4, 1, 0))

    def forward(self, x):
        return self.make(x[:, :1, :1, :1].expand(-1, 100, 1, 1))


class Diffusion(nn.Module):
    """The widths of a latent-diffusion UNet and of its autoencoder."""

    def __init__(self):
        super().__init__()
        pairs = [(4, 320), (320, 320), (320, 640), (640, 640), (640, 1280), (1280, 1280), (2560, 1280), (1920, 1280),
                 (1920, 640), (1280, 640), (960, 640), (960, 320), (640, 320), (320, 4), (3, 128), (128, 128),
                 (128, 256), (256, 256), (256, 512), (512, 512), (512, 8), (4, 512), (512, 256), (256, 128), (128, 3)]
        self.layers = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in pairs)
        self.points = nn.ModuleList(nn.Conv2d(i, o, 1) for i, o in pairs)

    def forward(self, x):
        for layer, point in zip(self.layers, self.points):
            for side in (8, 16, 32, 64):
                image = x.new_empty(1, layer.in_channels, side, side)
                layer(image), point(image)


class Small(nn.Module):
    """What tutorials build for MNIST and CIFAR."""

    def __init__(self):
        super().__init__()
        rows = [(1, 32, 3, 0, 28), (32, 64, 3, 0, 26), (1, 10, 5, 0, 28), (10, 20, 5, 0, 12), (1, 6, 5, 2, 28),
                (6, 16, 5, 0, 14), (3, 6, 5, 0, 32), (1, 16, 3, 1, 28), (16, 32, 3, 1, 14), (3, 32, 3, 1, 32),
                (32, 32, 3, 1, 32), (32, 64, 3, 1, 16), (64, 64, 3, 1, 16), (64, 128, 3, 1, 8), (128, 128, 3, 1, 8),
                (3, 64, 3, 1, 32), (64, 64, 3, 1, 32), (64, 128, 3, 1, 32), (128, 256, 3, 1, 16), (256, 512, 3, 1, 8),
                (3, 16, 3, 1, 32), (16, 16, 3, 1, 32), (32, 32, 3, 1, 16), (64, 64, 3, 1, 8), (16, 160, 3, 1, 32),
                (160, 160, 3, 1, 32), (160, 320, 3, 1, 16), (320, 320, 3, 1, 16), (640, 640, 3, 1, 8)]
        self.layers = nn.ModuleList(nn.Conv2d(i, o, k, padding=p) for i, o, k, p, _ in rows)
        self.sides = [row[-1] for row in rows]

    def forward(self, x):
        for layer, side in zip(self.layers, self.sides):
            layer(x.new_empty(1, layer.in_channels, side, side))


def sound():
    """Whisper's, wav2vec's and other one-dimensional layers, as (layer, length)."""
    rows = []
    for width in (384, 512, 768, 1024, 1280):
        rows += [(nn.Conv1d(80, width, 3, padding=1), 3000), (nn.Conv1d(width, width, 3, stride=2, padding=1), 3000)]
    length = 16000
    for inputs, kernel, stride in ((1, 10, 5), (512, 3, 2), (512, 3, 2), (512, 3, 2), (512, 3, 2), (512, 2, 2), (512, 2, 2)):
        rows.append((nn.Conv1d(inputs, 512, kernel, stride), length))
        length = (length - kernel) // stride + 1
    rows += [(nn.Conv1d(w, w, 128, padding=64, groups=16), 49) for w in (768, 1024)]
    rows += [(nn.Conv1d(i, o, k, padding=k // 2, dilation=1), n) for i, o in ((64, 64), (128, 128), (64, 128), (256, 256), (300, 100))
             for k in (1, 3, 5) for n in (100, 128, 512, 1000)]
    return rows


def patches(side):
    """How vision transformers cut their images: layers whose stride is their kernel."""
    widths = (96, 128, 192, 256, 320, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664)
    return [nn.Conv2d(3, width, patch, patch) for patch in (4, 7, 8, 14, 16, 32) if patch <= side // 2 for width in widths]


def plain():
    """Layers of networks that people write themselves, as (layer, side): usual channels, kernels and sides."""
    rows = []
    for width, side in itertools.product((16, 32, 64, 128, 256, 512), (4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 256)):
        pairs = {(1, width), (3, width), (width, width), (width, 2 * width), (2 * width, width)}
        for (inputs, outputs), (kernel, stride, padding) in itertools.product(sorted(pairs), ((3, 1, 1), (3, 2, 1), (1, 1, 0), (4, 2, 1), (5, 1, 2))):
            if width * side <= 64 * 256 and kernel <= side:
                rows.append((nn.Conv2d(inputs, outputs, kernel, stride, padding), side))
        rows += [(nn.ConvTranspose2d(2 * width, width, 2, 2), side), (nn.ConvTranspose2d(2 * width, width, 4, 2, 1), side)]
    return rows


def collect(side_of_images=SIDE):
    layers = collections.Counter()
    seen = set()

    def note(model_name, module, sizes):
        key = described(module, sizes)
        if (model_name, key) not in seen:
            seen.add((model_name, key))
            layers[key] += 1

    def run(name, model, image):
        hooks = []
        for module in model.modules():
            if isinstance(module, nn.modules.conv._ConvNd):
                hooks.append(module.register_forward_hook(
                    lambda m, arguments, _: note(name, m, arguments[0].shape[2:])))
        with torch.no_grad():
            model(image)
        for hook in hooks:
            hook.remove()

    with torch.device("meta"):
        for name in torchvision.models.list_models():
            if name.startswith("quantized") or any(part in name for part in SKIPPED):
                continue
            arguments = {"weights": None}
            if name.startswith(("fcn", "deeplab", "lraspp")):
                arguments["weights_backbone"] = None
            if name in ("fcn_resnet50", "fcn_resnet101", "deeplabv3_resnet50"):
                arguments["aux_loss"] = True
            try:
                model = torchvision.models.get_model(name, **arguments)
            except NotImplementedError:
                with torch.device("cpu"):
                    model = torchvision.models.get_model(name, **arguments).to("meta")
            usual = 112 if name in VIDEO else 299 if name == "inception_v3" else getattr(model, "image_size", SIDE)
            side = usual if side_of_images == SIDE else side_of_images
            frames = (16,) if side_of_images == SIDE else (8, 16, 32)
            images = [(2, 3, count, side, side) for count in frames] if name in VIDEO else [(2, 3, side, side)]
            for image in images:
                try:
                    run(name, model, torch.empty(image))
                except (RuntimeError, ValueError, AssertionError, AttributeError, TypeError) as error:
                    print(name, image, str(error)[:80], file=sys.stderr)
        if side_of_images != SIDE:
            for layer in patches(side_of_images):
                note("patches", layer, (side_of_images, side_of_images))
            for width, depth in ((16, 3), (32, 3), (32, 4), (64, 4)):
                for channels, classes in ((3, 2), (1, 1)):
                    if side_of_images % 2**depth == 0:
                        run(f"unet{width}-{depth}", UNet(width, depth, channels, classes), torch.empty(2, channels, side_of_images, side_of_images))
            return layers
        for width, depth in ((16, 3), (32, 3), (32, 4), (48, 4), (64, 4), (64, 3)):
            for side in (96, 128, 256, 512):
                for channels, classes in ((3, 2), (1, 1)):
                    run(f"unet{width}-{depth}", UNet(width, depth, channels, classes), torch.empty(2, channels, side, side))
        for model in (Generator(), Generator(128), Diffusion(), Small()):
            run(type(model).__name__, model, torch.empty(2, 3, 8, 8))
        for layer, length in sound():
            note("sound", layer, (length,))
    return layers


def rows_of(layers):
    return [[*key, count] for key, count in sorted(layers.items(), key=str)]


def described(layer, sides):
    return (tuple(sides), layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, tuple(layer.padding), layer.dilation, layer.groups,
            isinstance(layer, TRANSPOSED))  # fmt: skip


def write(name, content):
    with gzip.GzipFile(Path(__file__).parent / name, "wb", mtime=0) as file:
        file.write(json.dumps(content, separators=(",", ":")).encode())


if __name__ == "__main__":
    layers = collect()
    write("layers.json.gz", rows_of(layers))
    by_side = {str(SIDE): rows_of(layers | {described(layer, (SIDE, SIDE)): 1 for layer in patches(SIDE)})}
    for side in SIDES:
        by_side[str(side)] = rows_of(collect(side))
    with torch.device("meta"):
        by_side["plain"] = rows_of({described(layer, (side, side)): 1 for layer, side in plain()})
    write("layers-by-side.json.gz", by_side)
    print({side: len(rows) for side, rows in by_side.items()})
