"""Captures the models of the .toml files beside this script with real torch: python crates/readers/tests/toml/make.py

A layer is Python as it stands in torch.nn; what docs/model-toml.md says of the rest is written down here once more. The
reader's estimate must be that of the capture.
"""

import re
import sys
import tomllib
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3] / "python"))

import vramfit  # noqa: E402


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        if shortcut is not None:
            self.shortcut = shortcut

    def forward(self, input):
        return self.body(input) + (self.shortcut(input) if hasattr(self, "shortcut") else input)


class LSTM(nn.LSTM):
    def forward(self, input):
        return super().forward(input)[0]


class GRU(nn.GRU):
    def forward(self, input):
        return super().forward(input)[0]


class RNN(nn.RNN):
    def forward(self, input):
        return super().forward(input)[0]


class MultiheadAttention(nn.MultiheadAttention):
    def forward(self, input):
        return super().forward(input, input, input, need_weights=False)[0]


NAMES = {**vars(nn), **{kind.__name__: kind for kind in (LSTM, GRU, RNN, MultiheadAttention)}}


def layer(entry):
    """The name, or None, and the module."""
    if isinstance(entry, str):
        name, call = re.fullmatch(r"\s*(?:([\w-]+)\s*=\s*)?(\w+\s*\(.*\))\s*", entry, re.DOTALL).groups()
        return name, eval(call, NAMES)  # noqa: S307: the files are ours
    if "residual" in entry:
        module = Residual(sequential(entry["residual"]), sequential(entry["shortcut"]) if "shortcut" in entry else None)
    elif "repeat" in entry:
        module = nn.Sequential(*(block(entry["layers"]) for _ in range(entry["repeat"])))
    else:
        module = sequential(entry["layers"])
    return entry.get("name"), module


def block(entries):
    """What is repeated: one layer as it is, several as a Sequential."""
    return layer(entries[0])[1] if len(entries) == 1 else sequential(entries)


def sequential(entries, kind=nn.Sequential):
    module = kind()
    for number, entry in enumerate(entries):
        name, inner = layer(entry)
        module.add_module(name or str(number), inner)
    return module


def main():
    for path in sorted(HERE.glob("*.toml")):
        text = tomllib.loads(path.read_text())
        shape = text["input"]
        dtype = getattr(torch, text.get("dtype", "float32"))
        sizes = [text["sizes"][size] if isinstance(size, str) else size for size in shape]
        example = torch.randn(sizes) if dtype.is_floating_point else torch.zeros(sizes, dtype=dtype)
        with torch.device("meta"):
            model = sequential(text["layers"], type(text.get("name", "Sequential"), (nn.Sequential,), {}))
        made = vramfit.capture(model, {"input": example}, path.with_suffix(".vramfit"), sizes={"input": tuple(shape)})
        print(path.stem, made.size, made.symbols, len(made.variants), made.notes)


if __name__ == "__main__":
    main()
