"""Values that nobody knows, but between which numbers they are: shares, clamped numbers, and what is picked from them."""

import pytest
import torch
from test_capture import LOSS, Deciding, assumed, capture

from vramfit.assumptions import Assumed, spread


class Levels(Deciding):
    """Takes each row to one of four levels, as a pooler of boxes does."""

    def forward(self, x):
        y = self.linear(x)
        levels = torch.clamp(torch.floor(y[:, 0]), min=2, max=5).to(torch.int64) - 2
        return torch.cat([y[torch.where(levels == level)[0]] for level in range(4)])


class Shares(Deciding):
    """Keeps the rows whose share is not negative: all of them."""

    def forward(self, x):
        y = self.linear(x)
        shares = torch.sigmoid(y[:, 0])[torch.arange(len(x))]
        kept = y[torch.where(shares >= 0)[0]]
        return torch.cat([kept, kept])


@pytest.mark.parametrize("model, rows", [(Levels, (8, "batch")), (Shares, (16, "2*batch"))])
def test_no_row_is_lost_where_values_have_bounds(model, rows, tmp_path):
    contents = capture(model(), torch.randn(8, 4), tmp_path, loss=lambda outputs, _: outputs.sum())
    for kind in assumed(contents):
        variant = next(variant for variant in contents["variants"] if variant.get("assumed", "expected") == kind)
        calls = [step for step in contents["steps"][variant["steps"]] if step[0] == "call"]
        cat = next(call for call in calls if contents["operators"][call[1]][0] == "aten.cat.default")
        row = contents["tensors"][variant["tensors"]][int(cat[3][0][1:])]
        assert contents["types"][variant["types"]][row[0]][1][0] in rows, kind


def test_numbers_with_bounds_reach_both_and_choose_the_same_for_the_most():
    numbers = spread([1000], torch.float32, 0, Assumed.EXPECTED, (2.0, 5.0))
    assert numbers.min() == 2 and numbers.max() == 5
    assert set(numbers.to(torch.int64).tolist()) == {2, 3, 4, 5}
    assert spread([9], torch.float32, 0, Assumed.MOST, (2.0, 5.0)).unique().tolist() == [5]
    assert spread([9], torch.float32, 0, Assumed.LEAST, (2.0, 5.0)).unique().tolist() == [2]


class Written(Deciding):
    """What is written into a share has no bounds any more."""

    def forward(self, x):
        y = torch.sigmoid(self.linear(x.detach()).detach())
        y.mul_(self.linear.weight.detach()[0])
        return self.linear(y[torch.where(y[:, 0] >= 0)[0]])


def test_what_is_written_into_numbers_with_bounds_takes_the_bounds_away(tmp_path):
    contents = capture(Written(), torch.randn(8, 4), tmp_path, **LOSS)
    assert any("a share of 0.5 was assumed" in cause for cause in contents["variants"][0]["causes"])
