"""Function transforms inside a model are recorded as the resulting calls on plain tensors."""

import torch
import vramfit
from replay import Replay, given_tensors, load
from torch import nn


class Twice(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


class Masked(nn.Module):
    """Attention whose mask is computed element by element, as in transformers 4."""

    def __init__(self, function=None) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.function = function

    def forward(self, x, keep):
        places, batches = torch.arange(x.shape[1]), torch.arange(x.shape[0])
        seen = torch.vmap(torch.vmap(torch.vmap(lambda b, q, k: (q >= k) & (k >= 0) & b.new_ones((), dtype=torch.bool), (None, None, 0)),
                                     (None, 0, None)), (0, None, None))(batches, places, places)
        h = self.linear(x)
        scores = (h @ h.transpose(1, 2)).masked_fill(~(seen & keep[:, None, :]), -1e9).softmax(-1)
        rows = torch.vmap(lambda row: (row * 2.0).sum() + 1)(h)
        if self.function is not None:
            rows = torch.vmap(self.function.apply)(rows)
        return (scores @ h).mean() + rows.mean()


INPUTS = {"x": torch.randn(2, 6, 8), "keep": torch.ones(2, 6, dtype=torch.bool)}
SIZES = {"x": ("batch", "seq", 8), "keep": ("batch", "seq")}


def test_a_model_with_vmap_gives_its_own_loss_at_sizes_that_were_never_recorded(tmp_path):
    model = Masked()
    captured = vramfit.capture(model, INPUTS, tmp_path / "model.vramfit", sizes=SIZES)
    assert captured.symbols == ["batch", "seq"] and captured.notes == []
    contents = load(tmp_path / "model.vramfit")
    inputs = {"x": torch.randn(5, 9, 8), "keep": torch.rand(5, 9) > 0.3}
    replay = Replay(contents, "fp32", "train", {"batch": 5, "seq": 9})
    assert torch.equal(replay.run(given_tensors(contents, model, inputs)), model(**inputs))


def test_numbers_inside_vmap_do_not_decide_types(tmp_path):
    vramfit.capture(Masked(), INPUTS, tmp_path / "model.vramfit", sizes=SIZES)
    replay = Replay(load(tmp_path / "model.vramfit"), "bf16", "train", {"batch": 2, "seq": 6})
    results = [replay.types[replay.rows[int(step[3][0][1:])][0]][0] for step in replay.steps if step[0] == "call" and step[3] and step[3][0]]
    assert "bfloat16" in results and "float32" not in results


def test_a_function_inside_vmap_is_a_region_with_what_it_saves(tmp_path):
    captured = vramfit.capture(Masked(Twice), INPUTS, tmp_path / "model.vramfit", sizes=SIZES)
    assert all(len(variant["functions"]) == 1 for variant in captured.contents["variants"] if variant["mode"] == "train")
    replay = Replay(load(tmp_path / "model.vramfit"), "fp32", "train", {"batch": 2, "seq": 6})
    (opened,), (closed,) = ([step for step in replay.steps if step[:length] == begin] for length, begin in ((1, ["function"]), (2, ["end", "function"])))
    assert opened[2] and closed[3] == opened[2]


def test_a_function_without_gradients_is_only_its_calls(tmp_path):
    captured = vramfit.capture(Masked(Twice).requires_grad_(False), INPUTS, tmp_path / "model.vramfit", sizes=SIZES)
    assert captured.notes == []


def test_the_recorder_leaves_transforms_as_they_were(tmp_path):
    from torch._functorch.autograd_function import custom_function_call

    before = custom_function_call.non_fallthrough_keys
    vramfit.capture(Masked(Twice), INPUTS, tmp_path / "model.vramfit", sizes=SIZES)
    assert custom_function_call.non_fallthrough_keys == before
    assert torch.equal(torch.vmap(Twice.apply)(torch.ones(3)), torch.full((3,), 2.0))
