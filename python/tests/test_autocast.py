"""Autocast's casts are those that PyTorch itself makes on CUDA tensors."""

import os
import re

import pytest
import torch
import torch.nn.functional as F
import vramfit
from replay import Replay, load
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from vramfit import autocast

HEADER = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "autocast_mode.h")


def listed(macro: str) -> set:
    text = open(HEADER).read()
    body = re.search(rf"#define {macro}\(_\)\s*\\\n((?:.*\\\n)*.*\n)", text).group(1)
    return {".".join(part.strip() for part in entry.split(",")) for entry in re.findall(r"_\(([\w, ]+)\)", body)}


@pytest.mark.parametrize("macro, ours", [
    ("AT_FORALL_LOWER_PRECISION_FP", autocast.LOWER_PRECISION),
    ("AT_FORALL_FP32", autocast.FULL_PRECISION),
    ("AT_FORALL_FP32_SET_OPT_DTYPE", autocast.FULL_PRECISION_BY_DTYPE),
    ("AT_FORALL_PROMOTE", autocast.WIDEST),
])
def test_the_lists_are_those_of_the_installed_header(macro, ours):
    assert listed(macro) == {name for name in ours if autocast.is_registered(name)}


class Everything(nn.Module):
    """A model with one operator of each kind that autocast treats differently."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.first = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.group = nn.GroupNorm(2, 16)
        self.batch = nn.BatchNorm1d(16)
        self.convolution = nn.Conv1d(16, 16, 3, padding=1)
        self.same = nn.Conv1d(16, 16, 3, padding="same")
        self.image = nn.Conv2d(1, 4, 3)
        self.prelu = nn.PReLU()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.frozen = nn.Linear(16, 16).requires_grad_(False)
        self.twice = nn.Linear(16, 16)
        self.narrow = nn.Linear(16, 16)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        h = self.first(self.embedding(ids)) + self.first(x)
        h = self.norm(h) + self.frozen(h) + self.frozen(h)
        h = self.batch(self.convolution(h.transpose(1, 2))).transpose(1, 2) + self.same(h.transpose(1, 2)).transpose(1, 2)
        h = self.group(h.transpose(1, 2)).transpose(1, 2)
        h = self.prelu(h) + F.gelu(h) + torch.exp(h * 0.01) + h.pow(2) + F.softplus(h)
        h = h + self.attention(h, h, h, need_weights=False)[0]
        h = self.encoder(h)
        scores = torch.softmax(h @ h.transpose(1, 2), -1)
        h = scores @ h + torch.einsum("bij,bjk->bik", scores, h)
        h = torch.addcmul(h, h, x) + torch.cat([h, x], -1)[..., :16] + torch.stack([h, h]).sum(0)
        with torch.autocast("cuda", enabled=False):
            h = h + self.twice(h.float())
        with torch.autocast("cuda", dtype=torch.float16):
            h = h + self.narrow(h)  # its cast is cached, and a region with another dtype would get it
        h = h + self.twice(h) + h.cumsum(1) + h.norm(2, -1, keepdim=True) + torch.linalg.vector_norm(h, dim=-1, keepdim=True)
        image = F.interpolate(self.image(h[:, None]), size=(8, 8), mode="bilinear")
        with torch.no_grad():
            side = self.first(h).mean()
        return h.mean(1) + image.mean((2, 3)).sum(1, keepdim=True) + F.cosine_similarity(h, h, -1).mean(1, keepdim=True) + side


def losses(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    probabilities = torch.softmax(outputs, -1)
    return F.cross_entropy(outputs, targets) + F.mse_loss(outputs, probabilities) + F.binary_cross_entropy_with_logits(outputs, probabilities.detach()) \
        + F.smooth_l1_loss(outputs, outputs.detach()) + F.kl_div(F.log_softmax(outputs, -1), probabilities.detach(), reduction="batchmean") \
        + F.cross_entropy(outputs, probabilities.detach(), label_smoothing=0.1)


class Log(TorchDispatchMode):
    """Calls with the dtypes of their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = str(func)
        if not name.startswith("prim.") and name != "aten.detach.default":
            shapes = [(str(a.dtype), tuple(a.shape)) for a in args if isinstance(a, torch.Tensor)]
            self.calls.append((name, shapes, (kwargs or {}).get("dtype")))
        return result


def fake_cuda_needs_a_driver() -> bool:
    """Before torch 2.10 even fake tensors query the driver, and a forward pass aborts the process without one."""
    with FakeTensorMode():
        try:
            torch.empty(1, device="cuda").copy_(torch.empty(1, device="cuda"))
        except RuntimeError:
            return True
    return False


@pytest.mark.skipif(fake_cuda_needs_a_driver(), reason="this torch has no fake CUDA tensors without a CUDA driver")
@pytest.mark.parametrize("dtype, precision", [(torch.bfloat16, "amp-bf16"), (torch.float16, "amp-fp16")])
def test_casts_come_as_on_fake_cuda_tensors(dtype, precision, tmp_path, monkeypatch):
    ids, x, targets = torch.randint(0, 50, (4, 6)), torch.randn(4, 6, 16), torch.randint(0, 16, (4,))
    vramfit.capture(Everything(), (ids, x), tmp_path / "model.vramfit", targets=targets, loss=losses)
    contents = load(tmp_path / "model.vramfit")
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
    with FakeTensorMode():
        with torch.device("cuda"):
            model = Everything().train()
            given = (torch.zeros(4, 6, dtype=torch.long), torch.zeros(4, 6, 16), torch.zeros(4, dtype=torch.long))
        with torch.autocast("cuda", dtype=dtype), Log() as real:
            losses(model(*given[:2]), given[2])
        replay = Replay(contents, precision, "train", {s["name"]: s["example"] for s in contents["symbols"]})
        replay.check = False
        replay.device = torch.device("cuda")
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        start = {entry["tensor"]: tensors[entry["names"][0]] for entry in (*contents["parameters"], *contents["buffers"])}
        for entry, tensor in zip((*contents["inputs"], *contents["targets"]), given):
            start[entry["tensor"]] = tensor
        with Log() as captured:
            replay.run(start)
    for at, (expected, found) in enumerate(zip(real.calls, captured.calls)):
        assert found == expected, (at, expected, found, real.calls[max(0, at - 3):at])
    assert len(real.calls) == len(captured.calls)


def test_a_norm_over_one_dimension_gets_its_type_and_the_default_that_goes_with_it(tmp_path):
    class Distance(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return torch.nn.functional.pairwise_distance(self.linear(x), x)

    vramfit.capture(Distance(), torch.randn(2, 4), tmp_path / "model.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "model.vramfit")
    steps = Replay(contents, "amp-bf16", "train", {"batch": 2}).steps
    names = [contents["operators"][step[1]][0] for step in steps if step[0] == "call"]
    assert "aten.norm.ScalarOpt_dim_dtype" in names, names


def test_a_weight_is_cast_once_and_kept_until_autocast_ends(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False))
    model.append(model[0]).append(model[1])
    vramfit.capture(model, torch.randn(2, 4), tmp_path / "model.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "model.vramfit")
    replay = Replay(contents, "amp-fp16", "train", {"batch": 2})
    casts = [step for step in replay.steps if step[0] == "call" and len(step) > 5]
    kept = [step for step in casts if step[5] == 2]
    assert [step[2][0] for step in kept] == ["%1", "%0"]
    assert [step[2][0] for step in casts if step[5] == 1] == ["%4", "%3", "%2", "%3", "%2"]
    assert replay.steps[-2] == ["end", "autocast"]
    assert replay.steps[-1] == ["free", [int(step[3][0][1:]) for step in kept]]
