"""``--channels-last`` and ``--fused-attention`` answer as captures of models that were changed by hand."""

import json
import math
import subprocess

import pytest
import torch
from torch import nn
from torch.nn import functional

import vramfit
from vramfit.binary import find_binary

PRECISIONS = ([], ["--amp", "bf16"], ["--dtype", "fp16"])


class Attention(nn.Module):
    """``kind``: how scores are masked, whether heads are part of the batch. ``fused``: as plans say to write it."""

    def __init__(self, kind, fused, width=64, heads=4, longest=256):
        super().__init__()
        self.kind, self.is_fused, self.heads = kind, fused, heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        if kind == "filled":
            self.register_buffer("ones", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))
        if kind == "added":
            self.register_buffer("ones", torch.zeros(1, 1, longest, longest))

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (
            part.view(samples, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        )
        if self.kind == "flat":
            q, k, v = (part.reshape(samples * self.heads, length, -1) for part in (q, k, v))
        scale, rate = 1 / math.sqrt(q.size(-1)), self.dropout.p if self.training else 0.0
        attend = functional.scaled_dot_product_attention
        if self.is_fused:
            if self.kind == "flat":
                y = attend(q[None], k[None], v[None], dropout_p=rate, scale=scale)[0]
            elif self.kind == "filled":
                kept = (self.ones[:, :, :length, :length] == 0).logical_not()
                y = attend(q, k, v, attn_mask=kept, dropout_p=rate, scale=scale)
                del kept
            else:
                mask = self.ones[:, :, :length, :length] if self.kind == "added" else None
                y = attend(q, k, v, attn_mask=mask, dropout_p=rate, scale=scale)
                del mask
        else:
            scores = (q @ k.transpose(-2, -1)) * scale
            if self.kind == "filled":
                scores = scores.masked_fill(self.ones[:, :, :length, :length] == 0, float("-inf"))
            if self.kind == "added":
                scores = scores + self.ones[:, :, :length, :length]
            scores = self.dropout(functional.softmax(scores, dim=-1))
            y = scores @ v
            del scores
        if self.kind == "flat":
            y = y.view(samples, self.heads, length, -1)
        return self.out(y.transpose(1, 2).contiguous().view(samples, length, width))


class Language(nn.Module):
    def __init__(self, kind, fused, words=500, width=64):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Attention(kind, fused, width) for _ in range(2))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Pictures(nn.Module):
    def __init__(self, views=False):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 32, 1), nn.GELU(), nn.AdaptiveAvgPool2d(4),
        )  # fmt: skip
        self.head = nn.Linear(32 * 16, 10)
        self.views = views

    def forward(self, images):
        x = self.body(images)
        return self.head(x.view(x.size(0), -1) if self.views else x.flatten(1))


def asked(file, *flags):
    given = [str(find_binary()), "estimate", str(file), "--json", "--cudnn", "off", *flags]
    return subprocess.run(given, capture_output=True, text=True, check=False)


def answer(file, *flags):
    done = asked(file, *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return found["peak_allocated"], found["peak_reserved"], found["phases"]


@pytest.mark.parametrize("kind", ["plain", "filled", "added", "flat"])
def test_fused_attention_answers_as_the_edited_model(tmp_path, kind):
    tokens = torch.randint(0, 500, (2, 32))
    for is_fused in (False, True):
        vramfit.capture(Language(kind, is_fused), {"tokens": tokens}, tmp_path / f"{is_fused}.vramfit")
    for flags in (*PRECISIONS, ["--mode", "eval"]):
        sizes = ["--batch", "6", "--seq", "160", *flags]
        changed = answer(tmp_path / "False.vramfit", "--fused-attention", *sizes)
        assert changed == answer(tmp_path / "True.vramfit", *sizes), flags
        assert changed[0] < answer(tmp_path / "False.vramfit", *sizes)[0]


def test_attention_whose_weights_are_returned_stays(tmp_path):
    class Shown(nn.Module):
        def forward(self, q, k, v):
            weights = (q @ k.transpose(-2, -1)).softmax(-1)
            return weights @ v, weights

    q = torch.randn(2, 3, 8, 4, requires_grad=True)
    vramfit.capture(Shown(), (q, q, q), tmp_path / "shown.vramfit")
    done = asked(tmp_path / "shown.vramfit", "--fused-attention")
    assert done.returncode == 2 and "--fused-attention: found no attention" in done.stderr


def test_channels_last_answers_as_the_captured_format(tmp_path):
    images = torch.randn(2, 3, 32, 32)
    vramfit.capture(Pictures(), (images,), tmp_path / "first.vramfit")
    model = Pictures().to(memory_format=torch.channels_last)
    vramfit.capture(model, (images.to(memory_format=torch.channels_last),), tmp_path / "last.vramfit")
    for flags in PRECISIONS:
        sizes = ["--batch", "24", *flags]
        assert answer(tmp_path / "first.vramfit", "--channels-last", *sizes) == answer(tmp_path / "last.vramfit", *sizes)


def test_what_cannot_have_its_channels_last_is_named(tmp_path):
    vramfit.capture(Pictures(views=True), (torch.randn(2, 3, 32, 32),), tmp_path / "views.vramfit")
    done = asked(tmp_path / "views.vramfit", "--channels-last")
    assert done.returncode == 2 and "calls view() on images" in done.stderr and "test_other_code.py" in done.stderr
    vramfit.capture(nn.Linear(4, 4), (torch.randn(2, 4),), tmp_path / "linear.vramfit")
    done = asked(tmp_path / "linear.vramfit", "--channels-last")
    assert done.returncode == 2 and "no convolution of images" in done.stderr
    vramfit.capture(nn.Conv3d(2, 2, 3), (torch.randn(2, 2, 8, 8, 8),), tmp_path / "volumes.vramfit")
    done = asked(tmp_path / "volumes.vramfit", "--channels-last")
    assert done.returncode == 2 and "five dimensions" in done.stderr


def test_apply_gives_weights_and_images_channels_last():
    model, images = Pictures(), torch.randn(8, 3, 32, 32)
    targets = torch.randint(0, 10, (8,))
    plans = vramfit.plan(
        model, (images,), targets=targets, loss=functional.cross_entropy, vram="1GiB", channels_last=True, cudnn="off"
    )
    seen = []
    model.body[0].register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    strides = model.body[0].weight.stride()
    with plans.best.apply(model, torch.optim.AdamW(model.parameters())) as applied:
        applied.step((images,), targets)
        assert model.body[0].weight.is_contiguous(memory_format=torch.channels_last)
        assert seen[0].is_contiguous(memory_format=torch.channels_last)
    assert model.body[0].weight.stride() == strides
