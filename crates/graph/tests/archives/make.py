"""Makes the archives beside this file: python make.py NAME.pt2 [--model tiny] [--device meta] [--fixed]

tiny: a small model with a bit of everything: tied weights, buffers of both kinds, a region without gradients, dropout.
masked: a batch of which a mask takes a part, so that data decides a size. pairs: a batch of pairs, so that sizes are
multiples of others. An archive is what torch.export.save writes, entries stored and weights included, but for paths, which
are cut to this file's name and site-packages/…. tiny-2.8.pt2 and tiny-2.15.pt2 were made with those versions of torch, the others with 2.11;
masked.pt2 and pairs.pt2 on the meta device.
"""

import argparse
import io
import re
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

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


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(x[x[:, 0] > 0])


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 2, stride=2)

    def forward(self, x):
        return self.conv(x.view(-1, 2, 3, x.shape[2]).mean(1)).mean(-1)


def example(name, is_fixed):
    """A model, what it is called with, and the sizes that stay open."""
    if name == "masked":
        return Masked(), {"x": torch.zeros(64, 8)}, None
    if name == "pairs":
        shapes = {"x": {0: 2 * Dim("pairs", max=512), 2: 4 * Dim("length", min=8, max=4096)}}
        return Pairs(), {"x": torch.zeros(8, 3, 104)}, shapes
    shapes = None if is_fixed else {"tokens": {0: Dim("batch"), 1: Dim("seq", max=512)}}
    return Tiny(), {"tokens": torch.zeros(4, 6, dtype=torch.int64)}, shapes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name", type=Path)
    parser.add_argument("--model", choices=["tiny", "masked", "pairs"], default="tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--fixed", action="store_true")
    arguments = parser.parse_args()
    with torch.device(arguments.device):
        model, inputs, shapes = example(arguments.model, arguments.fixed)
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(model.train(), (), inputs, dynamic_shapes=shapes), buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(arguments.name, "w", zipfile.ZIP_STORED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".json"):
                content = PATH.sub(r"\1", content.decode()).encode()
            target.writestr(zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0)), content)


if __name__ == "__main__":
    main()
