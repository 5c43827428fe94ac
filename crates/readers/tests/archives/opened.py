"""Makes opened.pt2 and opened.vramfit beside this file, with `python` in the PYTHONPATH: python opened.py

One model with operators that eager PyTorch runs as several: as torch.export.save writes it, and as vramfit.capture does. Made
with torch 2.11; paths are cut as in make.py.
"""

import io
import re
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
import vramfit
from torch import nn
from torch.export import Dim

PATH = re.compile(r"(?<![\w.])/[^\"\\,;]*?/(site-packages/|opened\.py)")
EQUATIONS = (
    "bij,bjc->bci", "bij,bjc->bic", "bij,cj->bic", "cj,bij->bci", "bij,bji->bi", "bij,j->bi", "bij,bjc", "bij->bji", "bij->bi",
    "bij,bjc,cd->bid", "b...j,...j->b...", "bij,lc->bc", "j,bij->bij", "bij,cjd->cbid",
)
SIZES = {"i": 24, "j": 32, "c": 16, "d": 8, "l": 4}


class Product(nn.Module):
    """The factors are the input, the input turned, or weights."""

    def __init__(self, equation):
        super().__init__()
        self.equation = equation
        self.names = equation.split("->")[0].replace("...", "i").split(",")
        self.weights = nn.ParameterDict()
        for names in self.names:
            if "b" not in names:
                self.weights[names] = nn.Parameter(torch.zeros([SIZES[letter] for letter in names]))
        is_turned = any(names in ("bji", "bjc") for names in self.names)
        self.turn = nn.Linear(24, 24 if "bji" in self.names else 16) if is_turned else None

    def forward(self, x):
        turned = x if self.turn is None else self.turn(x.transpose(1, 2))
        factors = [x if names[-1] == "j" and names[0] == "b" else turned if names[0] == "b" else self.weights[names] for names in self.names]
        return torch.einsum(self.equation, factors)


class Opened(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 32, padding_idx=0)
        self.products = nn.ModuleList(Product(equation) for equation in EQUATIONS)
        self.convolution = nn.Conv1d(24, 24, 3, padding="same")
        self.norm = nn.RMSNorm(32)
        self.head = nn.Linear(32, 16)
        self.register_buffer("shares", torch.ones(16))

    def forward(self, tokens, x):
        total = self.bag(tokens).mean()
        for product in self.products:
            total = total + product(x).mean()
        x = self.norm(self.convolution(x))
        one, other = x.tensor_split((10,), dim=1)
        total = total + one.mean() + other.mean()
        one, other = x.tensor_split(2, dim=2)
        total = total + one.mean() + other.mean()
        x = x.transpose(1, 2).reshape_as(x)
        x = x.gather(1, x.argsort(dim=1))
        logits = self.head(x.mean(1))
        total = total + F.cross_entropy(logits, tokens[:, 0], label_smoothing=0.1)
        return total + F.cross_entropy(logits, tokens[:, 1], self.shares, label_smoothing=0.1, reduction="sum")


def main():
    folder = Path(__file__).parent
    inputs = {"tokens": torch.zeros(4, 6, dtype=torch.int64, device="meta"), "x": torch.zeros(4, 24, 32, device="meta")}
    with torch.device("meta"):
        model = Opened().train()
    only = {("as-built", "train"), ("as-built", "eval"), ("amp-bf16", "train")}
    vramfit.capture(model, inputs, folder / "opened.vramfit", only=only)
    buffer = io.BytesIO()
    batch = {name: {0: Dim("batch")} for name in inputs}
    torch.export.save(torch.export.export(model, (), inputs, dynamic_shapes=batch), buffer)
    with zipfile.ZipFile(buffer) as source, zipfile.ZipFile(folder / "opened.pt2", "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith(".json"):
                content = PATH.sub(r"\1", content.decode()).encode()
            info = zipfile.ZipInfo(entry.filename, (1980, 1, 1, 0, 0, 0))
            target.writestr(info, content, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main()
