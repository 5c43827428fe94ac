"""Makes the archives beside this file: python make.py NAME.pt2 [--model CLASS] [--device meta] [--fixed]

Tiny is a small model with a bit of everything: tied weights, buffers of both kinds, a region without gradients, dropout. The
others have one thing each; pads.vramfit and attends.vramfit are the same models as `vramfit.capture` writes them (--capture). An archive is what
torch.export.save writes, entries stored and weights included, but for paths, which are cut to this file's name and
site-packages/…. tiny-2.8.pt2 and tiny-2.15.pt2 were made with those versions of torch, the others with 2.11; masked.pt2 and
pairs.pt2 on the meta device.
"""

import argparse
import io
import re
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import vramfit

PATH = re.compile(r"(?<![\w.])/[^\"\\,;]*?/(site-packages/|make\.py)")


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.up = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.1)
        self.down = nn.Linear(16, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight
        self.up.bias.requires_grad_(False)
        self.register_buffer("scale", torch.ones(8))
        self.register_buffer("extra", torch.zeros(3), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale
        with torch.no_grad():
            shift = torch.arange(tokens.shape[1], device=tokens.device).float().mean()
        y = self.drop(torch.relu_(self.norm(self.up(x))))
        left, right = self.down(y).chunk(2, dim=-1)
        return self.head(torch.cat([right, left], dim=-1) + shift + self.extra.sum())

    @staticmethod
    def example():
        return {"tokens": torch.zeros(4, 6, dtype=torch.int64)}


class Skips(nn.Module):
    """A list that lives until the function returns, in a loop on one line, in code without spaces."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))

    # fmt: off
    def forward(self, x):
        skips=[]
        for layer in self.down:
            x=torch.sin(layer(x))
            skips.append(x)
        for layer,skip in zip(self.up,skips): x=layer(x+skip)
        return x
    # fmt: on

    @staticmethod
    def example():
        return {"x": torch.zeros(4, 8)}


class Pads(nn.Module):
    """Every mode and number of dimensions of padding, after and before what has a gradient."""

    def __init__(self):
        super().__init__()
        self.line = nn.Conv1d(2, 2, 1)
        self.plane = nn.Conv2d(2, 2, 1)
        self.space = nn.Conv3d(2, 2, 1)

    def forward(self, x, y, z):
        total = 0
        for layer, values in ((self.line, x), (self.plane, y), (self.space, z)):
            for mode in ("constant", "reflect", "replicate", "circular"):
                pads = (1, 2) * (values.dim() - 2)
                total = total + layer(F.pad(layer(values), pads, mode=mode)).mean()
        return total

    @staticmethod
    def example():
        return {"x": torch.zeros(4, 2, 32), "y": torch.zeros(4, 2, 16, 16), "z": torch.zeros(4, 2, 8, 8, 8)}


class Branches(nn.Module):
    """A branch that depends on data."""

    def __init__(self):
        super().__init__()
        self.large = nn.Linear(8, 8)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: self.large(torch.relu(x)), (x,))

    @staticmethod
    def example():
        return {"x": torch.zeros(4, 8)}


def gated(x, weight):
    """A function whose variables hold what it makes."""
    gate = torch.sigmoid(x)
    scaled = gate * weight
    total = scaled + x
    return torch.tanh(total)


class Attends(nn.Module):
    """Attention of torch's own, which takes another branch in evaluation, and a function beside `forward`."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.weight = nn.Parameter(torch.ones(16))

    def forward(self, x):
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        return gated(x + y, self.weight)

    @staticmethod
    def example():
        return {"x": torch.zeros(4, 6, 16)}


class Masked(nn.Module):
    """A batch of which a mask takes a part, so that data decides a size; none is open."""

    sizes = None

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x[x[:, 0] > 0])

    @staticmethod
    def example():
        return {"x": torch.zeros(64, 8)}


class Pairs(nn.Module):
    """A batch of pairs, so that sizes are multiples of others."""

    sizes = {"x": {0: 2 * Dim("pairs", max=512), 2: 4 * Dim("length", min=8, max=4096)}}

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 2, stride=2)

    def forward(self, x):
        return self.conv(x.view(-1, 2, 3, x.shape[2]).mean(1)).mean(-1)

    @staticmethod
    def example():
        return {"x": torch.zeros(8, 3, 104)}


def open_sizes(value):
    """The batch, and the length of tokens."""
    return {0: Dim("batch")} if value.is_floating_point() else {0: Dim("batch"), 1: Dim("seq", max=512)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--model", default="Tiny", choices=["Tiny", "Skips", "Pads", "Branches", "Masked", "Pairs", "Attends"])
    parser.add_argument("--capture", action="store_true")
    arguments = parser.parse_args()
    with torch.device(arguments.device):
        model = globals()[arguments.model]().train()
        inputs = model.example()
    if arguments.capture:
        vramfit.capture(model, inputs, arguments.name)
        return
    buffer = io.BytesIO()
    usual = {name: open_sizes(value) for name, value in inputs.items()}
    shapes = None if arguments.fixed else getattr(model, "sizes", usual)
    torch.export.save(torch.export.export(model, (), inputs, dynamic_shapes=shapes), buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(arguments.name, "w", zipfile.ZIP_STORED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".json"):
                content = PATH.sub(r"\1", content.decode()).encode()
            target.writestr(zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0)), content)


if __name__ == "__main__":
    main()
