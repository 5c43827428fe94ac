"""Custom autograd functions: their forward is recorded as a region, their backward beside it."""

import torch
import vramfit
from replay import load
from torch import nn


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, scale):
        h = x @ w
        ctx.save_for_backward(x, None, w, h)
        ctx.scale = scale
        return h.relu() * scale

    @staticmethod
    def backward(ctx, gradient):
        x, _, w, h = ctx.saved_tensors
        gradient = gradient * ctx.scale * (h > 0)
        return gradient @ w.t() if ctx.needs_input_grad[0] else None, x.t() @ gradient, None


class Reading(Scaled):
    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("needs a GPU")


class Wrapped(nn.Module):
    def __init__(self, function=Scaled) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.weight = nn.Parameter(torch.randn(16, 16))
        self.function = function

    def forward(self, x):
        return self.function.apply(self.linear(x), self.weight, 2.0)


def captured(model, tmp_path, **options):
    path = tmp_path / "model.vramfit"
    vramfit.capture(model, torch.randn(4, 16), path, loss=lambda outputs, _: outputs.sum(), **options)
    return load(path)


def variant_of(contents, precision, mode):
    return next(one for one in contents["variants"] if (one["precision"], one["mode"]) == (precision, mode))


def run(contents, variant, function, values):
    """Runs the recorded backward on the CPU."""
    for step in function["steps"]:
        if step[0] == "call":
            name = contents["operators"][step[1]][0].split(".")
            overload = getattr(getattr(torch.ops.aten, name[1]), name[2])
            arguments = [values[value] if isinstance(value, str) and value.startswith("%") else value for value in step[2]]
            values[step[3][0]] = overload(*arguments)
        else:
            assert step[0] == "free"
            for number in step[1]:
                del values[f"%{number}"]
    return [None if name is None else values[name] for name in function["results"]]


def test_a_recorded_backward_gives_the_functions_own_gradients(tmp_path):
    model = Wrapped()
    contents = captured(model, tmp_path)
    variant = variant_of(contents, "fp32", "train")
    (function,) = variant["functions"]
    steps = contents["steps"][variant["steps"]]
    assert steps[function["end"]][:2] == ["end", "function"]
    arguments = next(step for step in steps if step[0] == "function")[2]
    saved = steps[function["end"]][3]
    x = torch.randn(4, 16, requires_grad=True)
    weight = model.weight.detach().requires_grad_()
    out = Scaled.apply(x, weight, 2.0)
    gradient = torch.randn_like(out)
    out.backward(gradient)
    values = dict(zip(saved, (x.detach(), weight.detach(), (x @ weight).detach())))
    assert saved[:2] == arguments
    found = run(contents, variant, function, {**values, function["gradients"][0]: gradient})
    assert torch.equal(found[0], x.grad) and torch.equal(found[1], weight.grad)


def test_no_note_and_no_tensor_is_left_of_a_recorded_backward(tmp_path):
    contents = captured(Wrapped(), tmp_path, only={("fp32", "train")})
    assert contents["notes"] == []
    variant = variant_of(contents, "fp32", "train")
    made = {number for step in variant["functions"][0]["steps"] if step[0] == "call" for number in step[3]} | set(variant["functions"][0]["gradients"])
    assert not made & {f"%{number}" for number in variant["held"]}
    forward = repr(contents["steps"][variant["steps"]])
    assert not any(f"'{name}'" in forward for name in made)


def test_the_backward_runs_outside_of_the_forwards_autocast(tmp_path):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.float() @ torch.ones(16, 16, device=gradient.device)

    contents = captured(Wrapped(type("One", (), {"apply": staticmethod(lambda x, *_: Doubled.apply(x))})), tmp_path)
    (function,) = variant_of(contents, "amp-bf16", "train")["functions"]
    variant = variant_of(contents, "amp-bf16", "train")
    kinds, rows = contents["types"][variant["types"]], contents["tensors"][variant["tensors"]]
    assert kinds[rows[int(function["results"][0][1:])][0]][0] == "float32"


def test_without_gradients_there_is_no_backward(tmp_path):
    assert "functions" not in variant_of(captured(Wrapped(), tmp_path), "fp32", "eval")


def test_a_backward_that_cannot_run_is_named(tmp_path):
    contents = captured(Wrapped(Reading), tmp_path)
    assert contents["notes"] == [f"custom autograd function {__name__}.Reading: its backward is its own and is not recorded"]
    assert all("functions" not in variant for variant in contents["variants"])


def test_a_backward_that_runs_another_backward_is_named(tmp_path):
    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x.relu()

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                x = ctx.x.detach().requires_grad_()
                y = x.relu()
            return torch.autograd.grad(y, x, gradient)[0]

    contents = captured(Wrapped(type("One", (), {"apply": staticmethod(lambda x, *_: Again.apply(x))})), tmp_path)
    assert all("functions" not in variant for variant in contents["variants"])
    assert len(contents["notes"]) == 1


def test_what_the_context_holds_and_what_is_in_lists_is_recorded_as_such(tmp_path):
    class Listed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensors, x, y):
            ctx.save_for_backward(x)
            ctx.y = y
            return tensors[0] * y, None

        @staticmethod
        def backward(ctx, gradient, _):
            (x,) = ctx.saved_tensors
            return None, gradient * ctx.y, (gradient * x).sum()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, x):
            x = self.linear(x)
            return Listed.apply([x], x, self.scale)[0]

    contents = captured(Model(), tmp_path)
    (function,) = variant_of(contents, "fp32", "train")["functions"]
    steps = contents["steps"][variant_of(contents, "fp32", "train")["steps"]]
    x, again, scale = next(step for step in steps if step[0] == "function")[2]
    assert x == again
    assert function["arguments"] == [x, scale] and function["kept"] == [scale]
    assert len(function["gradients"]) == 1 and len(function["results"]) == 2


def test_an_estimate_of_a_custom_function_is_exact(tmp_path):
    estimate = vramfit.estimate(Wrapped(), torch.randn(4, 16), loss=lambda outputs, _: outputs.sum(), gpu="H200", cudnn="off")
    assert not estimate.unmodelled and estimate.exact
