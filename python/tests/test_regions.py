"""Regions: modules, grad modes, autocast, checkpoints, custom autograd functions."""

import pytest
import torch
import vramfit
from replay import Replay, load
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from zoo import CASES

LOSS = dict(loss=lambda outputs, _: outputs.sum())


def steps(model, inputs, tmp_path, precision="fp32", mode="train"):
    vramfit.capture(model, inputs, tmp_path / "model.vramfit", **LOSS)
    contents = load(tmp_path / "model.vramfit")
    replay = Replay(contents, precision, mode, {})
    return contents, replay


def shown(contents, replay, kinds):
    found = []
    for step in replay.steps:
        if step[0] in kinds:
            found.append(contents["operators"][step[1]][0] if step[0] == "call" else tuple(step[:3]) if step[0] != "autocast" else tuple(step))
    return found


class Modes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            a = self.linear(x)
            with torch.enable_grad():
                b = self.linear(x)
        with torch.inference_mode():
            c = self.linear(x)
        with torch.set_grad_enabled(True):
            return a + b + c


def test_grad_modes_show_as_steps_and_in_what_requires_grad(tmp_path):
    contents, replay = steps(Modes(), torch.randn(2, 4), tmp_path)
    linear = "aten.linear.default"
    assert shown(contents, replay, ("call", "grad"))[:10] == [
        ("grad", False), linear, ("grad", True), linear, ("grad", False), ("grad", True), ("grad", False), linear, ("grad", True), "aten.add.Tensor",
    ]
    made = [replay.rows[int(step[3][0][1:])][3] & 1 for step in replay.steps if step[0] == "call" and contents["operators"][step[1]][0] == linear]
    assert made == [0, 1, 0]


def test_modules_are_entered_with_their_arguments_and_left_with_their_results(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Dropout()))
    contents, replay = steps(model, torch.randn(2, 4), tmp_path)
    assert contents["modules"] == [["", "Sequential"], ["0", "Linear"], ["1", "Sequential"], ["1.0", "ReLU"], ["1.1", "Dropout"]]
    assert [tuple(step) for step in replay.steps if step[0] in ("enter", "exit")] == [
        ("enter", 0, ["%2"]), ("enter", 1, ["%2"]), ("exit", 1, ["%3"]), ("enter", 2, ["%3"]), ("enter", 3, ["%3"]), ("exit", 3, ["%4"]),
        ("enter", 4, ["%4"]), ("exit", 4, ["%5"]), ("exit", 2, ["%5"]), ("exit", 0, ["%5"]),
    ]


class Casting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.linear(x)
            with torch.autocast("cuda", enabled=False):
                x = self.linear(x.float())
        with torch.autocast(device_type=x.device.type, dtype=torch.float16):
            return self.linear(x)


def test_autocast_inside_the_model_is_followed(tmp_path):
    contents, replay = steps(Casting(), torch.randn(2, 4), tmp_path)
    assert shown(contents, replay, ("autocast", "end")) == [
        ("autocast", "cuda", True, "bfloat16", True), ("autocast", "cuda", False, "bfloat16", True), ("end", "autocast"), ("end", "autocast"),
        ("autocast", "cuda", True, "float16", True), ("end", "autocast"), ("end", "loss"),
    ]
    linears = [step for step in replay.steps if step[0] == "call" and contents["operators"][step[1]][0] == "aten.linear.default"]
    assert [replay.types[replay.rows[int(step[3][0][1:])][0]][0] for step in linears] == ["bfloat16", "float32", "float16"]
    assert sum(1 for step in replay.steps if step[0] == "call" and len(step) > 5 and step[5] == 2) == 4


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(4, 4)
        self.block = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 4))

    def forward(self, x):
        h = self.first(x)
        h = checkpoint(self.block, h, use_reentrant=self.reentrant)
        return h * 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_inside_the_model_are_regions(reentrant, tmp_path):
    contents, replay = steps(Checkpointed(reentrant), torch.randn(2, 4), tmp_path)
    regions = [step for step in replay.steps if step[0] == "checkpoint" or step[:2] == ["end", "checkpoint"]]
    assert [step[0] for step in regions] == ["checkpoint", "end"] and regions[0][1] is reentrant
    first = next(step for step in replay.steps if step[0] == "call")
    assert regions[0][3] == first[3]
    last = [step for step in replay.steps if step[0] == "call"][-2]
    inside = next(step for step in replay.steps if step[0] == "call" and contents["operators"][step[1]][0] == "aten.relu.default")
    assert bool(replay.rows[int(inside[3][0][1:])][3] & 1) is (not reentrant)
    assert replay.rows[int(last[3][0][1:])][3] & 1


class InSegments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))

    def forward(self, x):
        return checkpoint_sequential(self.layers, 2, x, use_reentrant=False)


def test_checkpoint_sequential_leaves_its_last_segment_out(tmp_path):
    contents, replay = steps(InSegments(), torch.randn(2, 4), tmp_path)
    seen = [step for step in replay.steps if step[0] in ("call", "checkpoint") or step[:2] == ["end", "checkpoint"]]
    kinds = [contents["operators"][step[1]][0] if step[0] == "call" else step[0] for step in seen]
    assert kinds == ["checkpoint"] + ["aten.linear.default"] * 2 + ["end"] + ["aten.linear.default"] * 2 + ["aten.sum.default"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_hugging_face_gradient_checkpointing(reentrant, tmp_path):
    case = CASES["llama"]
    model = case.build()
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    case.capture(model, tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    train, evaluation = (Replay(contents, "fp32", mode, {}) for mode in ("train", "eval"))
    assert sum(step[0] == "checkpoint" for step in train.steps) == 2
    assert not any(step[0] == "checkpoint" for step in evaluation.steps)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        y = x * factor
        ctx.save_for_backward(x, y)
        return y * x

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * x, None


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return Square.apply(self.linear(x), 2.0) + 1


def test_custom_functions_are_named_with_what_they_save(tmp_path):
    contents, replay = steps(Custom(), torch.randn(2, 4), tmp_path)
    begin = next(step for step in replay.steps if step[0] == "function")
    end = next(step for step in replay.steps if step[:2] == ["end", "function"])
    inner = [step for step in replay.steps[replay.steps.index(begin):replay.steps.index(end)] if step[0] == "call"]
    assert begin[1].endswith("Square") and begin[2] == inner[0][2][:1]
    assert end[2] == inner[1][3] and end[3] == [begin[2][0], inner[0][3][0]]
    assert any(replay.steps[one["end"]] == end for variant in contents["variants"] for one in variant.get("functions", ()))
    assert not replay.rows[int(inner[0][3][0][1:])][3] & 1
    outside = next(step for step in replay.steps[replay.steps.index(end):] if step[0] == "call")
    assert replay.rows[int(outside[3][0][1:])][3] & 1
