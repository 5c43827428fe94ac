"""Integers as expressions of the input's sizes."""

import pytest
import torch
import vramfit
from replay import Replay, load
from torch import nn
from vramfit.symbols import Expressions, Plan, evaluate


def fitted(function, examples, extra=0):
    plan = Plan(examples, list(examples), extra)
    return Expressions(plan).fit(tuple(function(**point) for point in plan.points))


@pytest.mark.parametrize("function, text", [
    (lambda batch, seq: 768, 768),
    (lambda batch, seq: batch, "batch"),
    (lambda batch, seq: 12 * batch * seq, "12*batch*seq"),
    (lambda batch, seq: seq * seq, "seq*seq"),
    (lambda batch, seq: batch * seq * seq * 4, "4*batch*seq*seq"),
    (lambda batch, seq: seq + 1, "seq+1"),
    (lambda batch, seq: 2 * seq - 1, "2*seq-1"),
    (lambda batch, seq: -seq, "-seq"),
    (lambda batch, seq: 10 - seq, "10-seq"),
    (lambda batch, seq: 8 * batch * (seq + 1), "8*batch*(seq+1)"),
    (lambda batch, seq: batch + seq, "batch+seq"),
    (lambda batch, seq: 6 * seq + 9, "3*(2*seq+3)"),
])
def test_common_forms_are_found_from_four_recordings(function, text):
    examples = {"batch": 8, "seq": 128}
    found = fitted(function, examples)
    assert found == text
    if isinstance(found, str):
        assert evaluate(found, {"batch": 5, "seq": 77}) == function(batch=5, seq=77)


@pytest.mark.parametrize("function", [
    lambda batch, seq: batch * seq + 3 * batch + 2 * seq + 1,
    lambda batch, seq: seq * (seq + 1) // 2,
    lambda batch, seq: batch * ((seq - 1) // 2 + 1),
    lambda batch, seq: (seq + 6) // 4,
])
def test_rarer_forms_are_found_from_more_recordings(function):
    found = fitted(function, {"batch": 8, "seq": 128}, extra=3)
    assert found is not None
    for batch, seq in ((2, 5), (9, 64), (11, 301)):
        assert evaluate(found, {"batch": batch, "seq": seq}) == function(batch=batch, seq=seq)


def test_what_has_no_expression_is_not_given_one():
    assert fitted(lambda batch, seq: 2 ** seq, {"batch": 8, "seq": 12}) is None
    assert fitted(lambda batch, seq: batch * seq if seq < 100 else 7, {"batch": 8, "seq": 128}) is None


@pytest.mark.parametrize("shape", [(4, 3, 16, 24), (4, 1, 16, 24), (1, 3, 16, 24)])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_channels_last_example_keeps_its_layout_in_other_sizes(shape, device, tmp_path):
    model = nn.Sequential(nn.Conv2d(shape[1], 8, 3, padding=1), nn.ReLU()).to(memory_format=torch.channels_last)
    example = torch.randn(shape).to(memory_format=torch.channels_last).to(device)
    vramfit.capture(model, example, tmp_path / "m.vramfit", loss=lambda o, _: o.mean(), sizes={"input": ("batch", shape[1], "h", "w")})
    contents = load(tmp_path / "m.vramfit")
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch", "h", "w"]


def test_sizes_of_convolutions_are_exact_for_any_image(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 4, 3, 2, 1), nn.Flatten(2))
    vramfit.capture(model, torch.randn(2, 3, 64, 96), tmp_path / "m.vramfit", loss=lambda o, _: o.mean(), sizes={"input": ("batch", 3, "h", "w")})
    contents = load(tmp_path / "m.vramfit")
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch", "h", "w"]
    for height, width in ((33, 50), (224, 224), (101, 75)):
        sizes = {"batch": 3, "h": height, "w": width}
        replay = Replay(contents, "fp32", "train", sizes)
        given = {entry["tensor"]: dict(model.named_parameters())[entry["names"][0]] for entry in contents["parameters"]}
        given[contents["inputs"][0]["tensor"]] = torch.randn(3, 3, height, width)
        replay.run(given)


def test_calls_that_differ_between_sizes_leave_one_size_and_the_reason(tmp_path):
    class Branch(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 6 else x + 1

    vramfit.capture(Branch(), torch.randn(8, 4), tmp_path / "m.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "m.vramfit")
    assert contents["symbols"] == [] and "batch: recorded at the example's size only" in contents["notes"][0]
    assert "test_symbols.py" in contents["notes"][0]
    assert contents["inputs"][0]["shape"] == [8, 4]


def test_a_size_that_the_model_fixes_is_no_symbol(tmp_path):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.head = nn.Linear(4 * 6, 2)

        def forward(self, ids):
            return self.head(self.embedding(ids).flatten(1))

    vramfit.capture(Fixed(), torch.zeros(5, 6, dtype=torch.long), tmp_path / "m.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "m.vramfit")
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch"]
    assert contents["notes"][0].startswith("seq: recorded at the example's size only")


def test_an_example_of_one_is_answered_too(tmp_path):
    vramfit.capture(nn.Linear(4, 4), torch.randn(1, 4), tmp_path / "m.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "m.vramfit")
    assert contents["symbols"][0]["name"] == "batch" and contents["symbols"][0]["example"] == 1


def test_lengths_that_differ_get_names_of_their_own(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 4)

        def forward(self, a, b):
            return self.embedding(a).sum(1) + self.embedding(b).sum(1)

    vramfit.capture(Two(), (torch.zeros(4, 6, dtype=torch.long), torch.zeros(4, 9, dtype=torch.long)), tmp_path / "m.vramfit", loss=lambda o, _: o.sum())
    contents = load(tmp_path / "m.vramfit")
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch", "seq", "seq_b"]


def test_wrong_sizes_are_refused():
    for sizes, word in (
        ({"y": (1,)}, "no input or target"), ({"input": ("batch",)}, "found 1 sizes, needed 2"),
        ({"input": ("n", "n")}, "is 4 here and 2 elsewhere"), ({"input": ("batch", 5)}, "needed 5"),
    ):
        with pytest.raises(vramfit.CaptureError, match=word):
            vramfit.capture(nn.Linear(4, 4), torch.randn(2, 4), "/nonexistent/file", sizes=sizes)


def ceiling(size):
    """A convolution of stride 2 with padding."""
    return (size - 1) // 2 + 1


def floor(size):
    """A pooling of 2."""
    return size // 2


@pytest.mark.parametrize("example", [64, 96, 127, 160, 224, 256, 380, 480])
@pytest.mark.parametrize("strides, is_told", [
    ([ceiling] * 5, True), ([floor] * 5, True), ([ceiling] * 2 + [floor] * 3, True), ([ceiling] * 3 + [floor], False),
    ([ceiling, floor, floor], False), ([floor, floor, ceiling, ceiling, ceiling], False),
])
def test_strides_in_a_row_are_exact_at_sizes_that_were_not_recorded_or_not_told(example, strides, is_told):
    for depth in range(1, len(strides) + 1):
        def reduced(batch, height):
            for stride in strides[:depth]:
                height = stride(height)
            return height

        found = fitted(reduced, {"batch": 2, "height": example})
        assert found is not None or not is_told
        for height in range(max(33, example - 100), example + 100) if found else ():
            assert evaluate(found, {"batch": 2, "height": height}) == reduced(batch=2, height=height), (found, depth, height)
