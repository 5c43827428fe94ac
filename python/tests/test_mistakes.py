"""A model that would fail or take another branch in training is reported."""

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

import vramfit
from vramfit.asking.settings import flags
from vramfit.errors import CaptureError, SettingError

TRAIN = {("as-built", "train")}


class Branching(nn.Module):
    """Branches on the values of its input."""

    def __init__(self, decide):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.decide = decide

    def forward(self, x, mask=None):
        return self.layer(self.decide(x, mask)).sum()


def twice_if_large(x, mask):
    if x.sum() > 3:
        x = torch.cat([x, x])
    return x


def by_item(x, mask):
    return x * x.max().item()


def by_list(x, mask):
    return x * mask.tolist()[0]


def by_equality(x, mask):
    return x if torch.equal(mask, mask) else -x


def selected(x, mask):
    return x[mask.bool()]


def in_place(x, mask):
    state = torch.zeros(4, dtype=torch.int64)
    state[0] = mask[0]
    return x if state.any() else -x


@pytest.fixture
def causes_of(tmp_path):
    """The reasons why another run may differ from the captured one."""
    def find(decide):
        captured = vramfit.capture(Branching(decide), (X, MASK), tmp_path / "model.vramfit", only=TRAIN)
        return [cause for variant in captured.contents["variants"] for cause in variant.get("causes", [])]

    return find


X, MASK = torch.ones(4, 8), torch.ones(4, dtype=torch.int64)


@pytest.mark.parametrize("decide,name", [
    (twice_if_large, "x"), (by_item, "x"), (by_list, "mask"), (by_equality, "mask"), (selected, "mask"), (in_place, "mask"),
])
def test_what_the_values_of_an_input_decide_is_told_with_its_line(decide, name, causes_of):
    causes = causes_of(decide)
    assert causes and all(f"the values of `{name}`" in cause for cause in causes), causes
    assert all("test_mistakes.py:" in cause and f" in {decide.__name__}: " in cause for cause in causes), causes


def checked(x, mask):
    assert x.min() > -1e9
    return x


def by_shape(x, mask):
    return torch.cat([x, x]) if x.shape[0] > 2 and len(mask) else x


def of_ones(x, mask):
    return x if torch.ones_like(mask).any() else -x


def finite(x, mask):
    return -x if torch.isnan(x).any() else x


@pytest.mark.parametrize("decide", [checked, by_shape, of_ones, finite])
def test_checks_shapes_and_constants_decide_nothing(decide, causes_of):
    assert not causes_of(decide)


def test_an_estimate_that_followed_values_is_not_called_exact():
    followed = vramfit.estimate(Branching(twice_if_large), X)
    plain = vramfit.estimate(Branching(by_shape), (X, MASK))
    assert plain.exact and not followed.exact
    assert any("twice_if_large" in note for note in followed.notes), followed.notes


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.float16])
def test_a_linear_layer_refuses_another_type_than_its_weights(dtype):
    with pytest.raises(CaptureError, match=r"aten\.linear\.default was given \w+ and float32, needed tensors of one floating-point type"):
        vramfit.estimate(nn.Linear(8, 4), torch.ones(2, 8, dtype=dtype))


@pytest.mark.parametrize("name,call,example", [
    ("matmul", lambda w, x: x @ w, torch.ones(4, 8, dtype=torch.float64)),
    ("conv1d", lambda w, x: functional.conv1d(x, w[:, :, None]), torch.ones(4, 8, 9, dtype=torch.int64)),
    ("conv_transpose1d", lambda w, x: functional.conv_transpose1d(x, w[:, :, None]), torch.ones(4, 8, 9, dtype=torch.float64)),
    ("embedding", lambda w, x: functional.embedding(x, w), torch.ones(4, 3)),
    ("cross_entropy", lambda w, x: functional.cross_entropy(w[:4], x), torch.ones(4, dtype=torch.int32)),
    ("binary_cross_entropy", lambda w, x: functional.binary_cross_entropy_with_logits(w[:4], x), torch.ones(4, 8, dtype=torch.int64)),
    ("layer_norm", lambda w, x: functional.layer_norm(x, (8,), w[0]), torch.ones(4, 8, dtype=torch.float64)),
])
def test_what_pytorch_refuses_for_its_types_is_refused(name, call, example):
    class Calls(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8, 8))

        def forward(self, x):
            return call(self.weight, x).sum()

    with pytest.raises(Exception):
        Calls()(example)
    with pytest.raises(CaptureError, match=name):
        vramfit.estimate(Calls(), example)


def test_integers_on_the_host_may_be_multiplied():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x + (torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64)).to(x.device)).sum()

    assert vramfit.estimate(Positions(), torch.ones(2, 2)).peak_allocated > 0


def test_a_loss_without_targets_is_told_what_it_lacks():
    with pytest.raises(CaptureError, match="the loss function failed") as caught:
        vramfit.estimate(nn.Linear(8, 4), torch.ones(2, 8), loss=functional.cross_entropy)
    assert "pass targets=" in caught.value.hint


def test_an_optimizer_that_is_not_torchs_is_not_taken_for_none():
    with pytest.raises(SettingError, match="sophia") as caught:
        flags({"optimizer": "sophia"})
    assert "did you mean" not in caught.value.hint and "'momentum' keeps one" in caught.value.hint
