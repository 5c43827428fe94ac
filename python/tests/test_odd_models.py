"""Unusual things that models do; each is captured, and its replay gives the model's own loss."""

import copy
import random

import pytest
import torch
import torch.nn.functional as F
import vramfit
from replay import Replay, given_tensors, load
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Base(nn.Module):
    inputs = staticmethod(lambda: dict(x=torch.randn(4, 6, 8)))

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)


class Masked(Base):
    """Selects by a mask that depends on the inputs."""

    inputs = staticmethod(lambda: dict(x=torch.randn(4, 6, 8), mask=torch.tensor([[True, True, False, True, True, False]] * 4)))

    def forward(self, x, mask):
        h = self.linear(x)
        chosen = h[mask]
        where = mask.nonzero()
        h[:, 0] = 0.0
        h[~mask] = 1.0
        return chosen.mean() + h.masked_select(mask[..., None]).sum() + h[where[:, 0], where[:, 1]].sum()


class Packed(Base):
    """Sequences of different lengths in a packed batch."""

    inputs = staticmethod(lambda: dict(x=torch.randn(4, 6, 8), lengths=torch.tensor([6, 5, 3, 2])))

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.GRU(8, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.linear(x), lengths.cpu(), batch_first=True)
        out, _ = self.network(packed)
        return pad_packed_sequence(out, batch_first=True)[0].sum()


class Parametrized(Base):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.utils.parametrizations.weight_norm(self.linear)

    def forward(self, x):
        return self.linear(x).sum()


class Listed(Base):
    """Keeps its parameters in a plain list too."""

    def __init__(self) -> None:
        super().__init__()
        self.all = [self.linear.weight, self.linear.bias]

    def forward(self, x):
        return F.linear(x, *self.all).sum() + (self.linear.weight ** 2).sum()


@torch.jit.script
def gate(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(a) * b


class Scripted(Base):
    def forward(self, x):
        return gate(self.linear(x), x).sum()


class InPlace(Base):
    def forward(self, x):
        h = self.linear(x)
        h = F.relu(h, inplace=True)
        h += 1
        h.mul_(2).clamp_(max=3)
        out = torch.zeros(4, 6, 8, device=x.device)
        out[:, ::2] = h[:, ::2]
        out[:, 1] += h[:, 1]
        h.squeeze_().unsqueeze_(0)
        return (out * h[0]).sum()


class Attention(Base):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)

    def forward(self, x):
        mask = torch.triu(torch.ones(6, 6, dtype=torch.bool, device=x.device), 1)
        out, weights = self.attention(x, x, x, attn_mask=mask, key_padding_mask=torch.zeros(4, 6, dtype=torch.bool, device=x.device))
        return out.sum() + weights.mean()


class Layers(Base):
    """Rarer layers and losses."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.Embedding(20, 8)
        self.bilinear = nn.Bilinear(8, 8, 4)
        self.prelu = nn.PReLU()
        self.norm = nn.RMSNorm(8)

    def forward(self, x):
        ids = torch.arange(12, device=x.device).view(4, 3)
        h = self.norm(self.linear(x))
        pooled = self.bilinear(self.bag(ids).mean(1), h.mean(1))
        image = F.pad(h[:, None], (1, 1, 1, 1), mode="reflect")
        folded = F.unfold(image, 3).sum()
        return F.mse_loss(pooled, torch.ones_like(pooled)) + folded + F.glu(h, -1).sum() + torch.logsumexp(self.prelu(h), -1).sum() \
            + F.huber_loss(h, x) + F.normalize(h, dim=-1).sum() + torch.einsum("bij,bkj->bik", h, h).tril().sum() + h.std(-1).sum()


class Generators(Base):
    """Creates tensors from Python data in its forward."""

    def forward(self, x):
        position = torch.arange(x.shape[1], device=x.device).float()[:, None] / 10000 ** (torch.arange(0, 8, 2, device=x.device).float() / 8)
        table = torch.cat([position.sin(), position.cos()], -1)
        mask = torch.full((6, 6), float("-inf"), device=x.device).triu(1)
        scores = torch.softmax(x @ self.linear(x).transpose(1, 2) + mask, -1)
        return (scores @ (x + table.to(x.dtype))).sum() + x.new_zeros(3).sum() + torch.tensor(2.0)


ODD = [Masked, Packed, Parametrized, Listed, Scripted, InPlace, Attention, Layers, Generators]


@pytest.mark.parametrize("kind", ODD)
def test_odd_models_replay_to_their_own_loss(kind, tmp_path):
    torch.manual_seed(0)
    model, inputs = kind(), kind.inputs()
    vramfit.capture(model, inputs, tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    for mode in ("train", "eval-grad", "eval"):
        own = copy.deepcopy(model).train(mode == "train")
        torch.manual_seed(0)
        random.seed(0)
        with torch.set_grad_enabled(mode != "eval"):
            expected = own(**inputs)
        replay = Replay(contents, "fp32", mode, {symbol["name"]: symbol["example"] for symbol in contents["symbols"]})
        torch.manual_seed(0)
        found = replay.run(given_tensors(contents, model, inputs))
        if kind is Generators:
            found = found + 2.0  # the value of torch.tensor(2.0) is not in the file
        assert torch.equal(found, expected), (mode, found, expected, contents["notes"])


class MadeLikeInputs(Base):
    """Creates tensors on the device of its input, by itself and within an operator."""

    def forward(self, x):
        padded = F.pad(x, (1, 1), mode="circular")
        return self.linear(padded[..., :8] + x.new_zeros(8) + torch.ones_like(x)).sum()


def test_what_is_made_like_an_input_is_where_the_input_is(tmp_path) -> None:
    path = tmp_path / "made.vramfit"
    vramfit.capture(MadeLikeInputs(), MadeLikeInputs.inputs(), path)
    capture = load(path)
    for tensors in capture["tensors"]:
        assert not any(flags & 4 for _, _, _, flags in tensors)


class Drops(Base):
    """Drops its layer at random, in the two ways that libraries have."""

    def forward(self, x):
        for _ in range(20):
            if torch.rand([]) < 0.9 or torch.empty(1).uniform_(0, 1).item() < 0.9:
                continue
            x = self.linear(x)
        return x.sum()


def test_a_layer_that_is_dropped_at_random_is_kept_and_said(tmp_path) -> None:
    path = tmp_path / "drops.vramfit"
    vramfit.capture(Drops(), Drops.inputs(), path, only={("as-built", "train")})
    capture = load(path)
    names = [name for name, _ in capture["operators"]]
    called = [names[step[1]] for step in capture["steps"][0] if step[0] == "call"]
    assert sum("linear" in name for name in called) == 20
    assert "a random number decides; the largest was assumed" in capture["variants"][0]["causes"][0]
