"""What capture promises about the file and about the model it is given."""

import copy
import functools
import gzip
import json
import re
import threading

import pytest
import torch
import vramfit
from replay import Replay, load
from torch import nn
from zoo import CASES, IDS, LABELS, Case, cross_entropy

LOSS = dict(loss=lambda outputs, _: outputs.sum())


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))


def capture(model, inputs, tmp_path, **options):
    vramfit.capture(model, inputs, tmp_path / "model.vramfit", **options)
    return load(tmp_path / "model.vramfit")


def calls(contents, precision="fp32", mode="train"):
    replay = Replay(contents, precision, mode, {})
    return [(contents["operators"][step[1]][0], step) for step in replay.steps if step[0] == "call"]


def test_all_precisions_and_modes_are_there(tmp_path):
    contents = capture(mlp(), torch.randn(4, 8), tmp_path, **LOSS)
    found = {(variant["precision"], variant["mode"]) for variant in contents["variants"]}
    assert found == {(p, m) for p in ("as-built", "fp32", "bf16", "fp16", "amp-bf16", "amp-fp16") for m in ("train", "eval", "eval-grad")}


def test_the_same_model_gives_the_same_bytes(tmp_path):
    case = CASES["bert"]
    torch.manual_seed(0)
    model = case.build()
    data = []
    for name in ("one", "two"):
        case.capture(model, tmp_path / name)
        data.append((tmp_path / name).read_bytes())
    assert data[0] == data[1]


def test_no_path_of_this_machine_is_in_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bert", "mlp", "resnet18"):
        case = CASES[name]
        case.capture(case.build(), tmp_path / "model.vramfit")
        text = gzip.open(tmp_path / "model.vramfit").read().decode()
        import os
        import sys

        for folder in (os.path.dirname(torch.__file__), sys.prefix, os.path.expanduser("~") + "/", str(tmp_path), os.path.dirname(__file__)):
            assert folder not in text
        for source in json.loads(text)["sources"]:
            assert not source[0].startswith("/") and ":" not in source[0]


def test_bert_base_is_under_200_kilobytes(tmp_path):
    import transformers

    with torch.device("meta"):
        model = transformers.BertForMaskedLM(transformers.BertConfig())
    result = vramfit.capture(model, dict(input_ids=IDS, attention_mask=torch.ones_like(IDS), labels=IDS), tmp_path / "bert.vramfit")
    assert result.size < 200_000 and result.symbols == ["batch", "seq"]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_model_without_values_gives_the_same_program(device, tmp_path):
    case = CASES["llama"]
    with torch.device(device):
        model = case.build()
    case.capture(model, tmp_path / device)
    case.capture(case.build(), tmp_path / "reference")
    one, other = load(tmp_path / device), load(tmp_path / "reference")
    assert one["steps"] == other["steps"] and one["tensors"] == other["tensors"] and one["types"] == other["types"]


def snapshot(model):
    return {
        name: (id(module), module.training, *({k: id(v) for k, v in table.items()} for table in (vars(module), module._parameters, module._buffers)))
        for name, module in model.named_modules()
    }


def test_the_model_is_left_as_it_was(tmp_path):
    case = CASES["resnet18"]
    model = case.build()
    model.layer1.eval()
    before, values = snapshot(model), copy.deepcopy(model.state_dict())
    case.capture(model, tmp_path / "model.vramfit")
    assert snapshot(model) == before
    for name, value in model.state_dict().items():
        assert torch.equal(value, values[name]) and value.device.type == "cpu"


class Caching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = self.linear.weight.detach().sum(0)
            self.extra = nn.Linear(2, 2)
        return self.linear(x) + self.cache


def test_what_a_forward_pass_leaves_behind_is_taken_away_and_noted(tmp_path):
    model = Caching()
    contents = capture(model, torch.randn(2, 4), tmp_path, **LOSS)
    assert model.cache is None and not hasattr(model, "extra")
    assert all("keeps 1 tensor" in variant["causes"][0] for variant in contents["variants"])


class Importing(nn.Module):
    """Leaves an exception behind, as some imports do. Its frames hold all tensors of the forward pass until cycles are collected."""

    times = 0

    def __init__(self, times: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        Importing.times = times

    def forward(self, x):
        h = self.linear(x).relu()
        if Importing.times:
            Importing.times -= 1
            try:
                raise ImportError
            except ImportError as problem:
                kept = problem  # noqa: F841
        return self.linear(h)


def test_what_the_first_call_of_all_leaves_behind_is_not_taken_for_the_models(tmp_path):
    model = Importing(times=1)
    first = capture(model, torch.randn(2, 4), tmp_path, **LOSS)
    assert Importing.times == 0 and first["notes"] == []
    assert first["steps"] == capture(model, torch.randn(2, 4), tmp_path, **LOSS)["steps"]


def test_cycles_that_every_forward_pass_makes_hold_their_tensors(tmp_path):
    contents = capture(Importing(times=1000), torch.randn(2, 4), tmp_path, **LOSS)
    assert contents["symbols"] and any("beyond the step" in cause for variant in contents["variants"] for cause in variant["causes"])


class Collecting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.history, self.named = ["before"], {"before": 1}

    def forward(self, x):
        self.history.append(self.linear(x))
        self.named["after"] = self.history[-1]
        return self.history[-1]


def test_what_a_module_collects_in_lists_and_dicts_is_taken_out_again(tmp_path):
    model = Collecting()
    history = model.history
    capture(model, torch.randn(2, 4), tmp_path, **LOSS)
    assert model.history is history == ["before"] and model.named == {"before": 1}


@pytest.mark.parametrize("model, example, inside", [
    (nn.Conv2d(3, 4, 4, padding="same"), torch.randn(2, 3, 8, 8), ["aten.constant_pad_nd.default", "aten.convolution.default"]),
    (nn.Conv2d(3, 4, 3, padding="same"), torch.randn(2, 3, 8, 8), ["aten.conv2d.padding"]),
    (nn.Conv1d(3, 4, 3), torch.randn(3, 8), ["aten.unsqueeze.default", "aten.convolution.default", "aten.squeeze.dim"]),
    (nn.Conv1d(3, 4, 3), torch.randn(2, 3, 8), ["aten.conv1d.default"]),
])
def test_convolutions_that_do_more_are_shown_opened(model, example, inside, tmp_path):
    names = [name for name, _ in calls(capture(model, example, tmp_path, **LOSS))]
    assert [name for name in names if name in inside or "conv" in name] == inside


class Hooking(nn.Module):
    """Like transformers: the first pass registers hooks and sets a flag on the module."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if not getattr(self, "is_hooked", False):
            self.linear.register_forward_hook(lambda _module, _inputs, outputs: outputs + 1)
            self.is_hooked = True
        return self.linear(x)


def test_hooks_that_a_pass_hangs_in_are_taken_out_again(tmp_path):
    model = Hooking()
    contents = capture(model, torch.randn(2, 4), tmp_path, **LOSS)
    assert not model.linear._forward_hooks and not hasattr(model, "is_hooked")
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch"]
    assert sum(name.startswith("aten.add") for name, _ in calls(contents)) == 1


def patched():
    """Everything that a capture replaces."""
    import torch.utils.checkpoint
    from torch._ops import OpOverload

    autocast = torch.amp.autocast_mode.autocast
    return [
        OpOverload._get_dispatch, nn.Module._call_impl, autocast.__enter__, autocast.__exit__, torch.clear_autocast_cache,
        vars(torch.autograd.Function)["apply"], torch.utils.checkpoint._checkpoint_without_reentrant_generator,
        torch.inference_mode.__enter__, torch.inference_mode.__exit__, torch.cuda.is_bf16_supported,
        torch.cuda.amp.common.amp_definitely_not_available, torch.overrides.has_torch_function, torch.nn.functional.has_torch_function_unary,
        torch.nn.functional.has_torch_function_variadic, torch._tensor.has_torch_function_unary, torch.nn.init.has_torch_function_variadic
        if hasattr(torch.nn.init, "has_torch_function_variadic") else None,
    ]


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.linear(x)
        raise ValueError("no further")


@pytest.mark.parametrize("model", [mlp, Failing])
def test_all_patches_are_undone(model, tmp_path):
    before = patched()
    state = torch.get_rng_state()
    inputs = torch.randn(2, 8 if model is mlp else 4)
    after_input = torch.get_rng_state()
    try:
        capture(model(), inputs, tmp_path, **LOSS)
    except vramfit.CaptureError:
        assert model is Failing
    assert all(one is other for one, other in zip(before, patched()))
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cuda") and not torch.overrides._get_current_function_mode_stack()
    assert not torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PreDispatch)
    assert (torch.ones(2, requires_grad=True) * 2).grad_fn is not None
    del state, after_input
    assert not list(tmp_path.glob(".vramfit-*"))


def test_an_error_names_the_line_of_the_model(tmp_path):
    with pytest.raises(vramfit.CaptureError, match=r"test_capture\.py:\d+ in forward.*ValueError: no further"):
        capture(Failing(), torch.randn(2, 4), tmp_path, **LOSS)
    assert not (tmp_path / "model.vramfit").exists()


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return y * 2 if (y > 0).any() else y


class Selecting(Deciding):
    def forward(self, x):
        y = self.linear(x)
        return y[y > 0]


@pytest.mark.parametrize("model, what", [
    (Deciding, r"a decision is taken on values .* evenly spread values were assumed"),
    (Selecting, r"the size of the result of aten\.index\.Tensor depends on values .* a share of 0\.5 was assumed"),
])
def test_what_values_made_from_weights_decide_is_assumed_and_named_as_a_cause(model, what, tmp_path):
    for variant in capture(model(), torch.randn(2, 4), tmp_path, **LOSS)["variants"]:
        assert len(variant["causes"]) == 1 and re.search(rf"test_capture\.py:\d+ in forward: {what}", variant["causes"][0])


def test_the_share_of_a_mask_can_be_chosen(tmp_path):
    for share, size in ((0, 0), (0.25, "batch"), (1, "4*batch")):
        contents = capture(Selecting(), torch.randn(8, 4), tmp_path, loss=lambda outputs, _: outputs.sum(), share=share)
        variant = contents["variants"][0]
        kinds, rows = contents["types"][variant["types"]], contents["tensors"][variant["tensors"]]
        assert kinds[rows[int(variant["outputs"][1:])][0]] == ["float32", [size]]
    with pytest.raises(vramfit.CaptureError, match="share: found 2"):
        capture(Selecting(), torch.randn(8, 4), tmp_path, share=2, **LOSS)


class Experts(nn.Module):
    """A hand-written mixture of experts: each token goes to two of eight."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 8)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))

    def forward(self, x):
        x = x.reshape(-1, 16)
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            if token.numel():
                out.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return out


def test_experts_get_equal_shares_of_the_tokens_at_every_batch(tmp_path):
    contents = capture(Experts(), torch.randn(4, 32, 16), tmp_path, loss=lambda outputs, _: outputs.sum())
    assert [symbol["name"] for symbol in contents["symbols"]] == ["batch"]
    variant = contents["variants"][0]
    kinds, rows = contents["types"][variant["types"]], contents["tensors"][variant["tensors"]]
    names = contents["operators"]
    inputs = [kinds[rows[int(step[2][0][1:])][0]][1] for step in contents["steps"][variant["steps"]]
              if step[0] == "call" and names[step[1]][0] == "aten.linear.default"]
    assert inputs == [["32*batch", 16]] + [["8*batch", 16]] * 8
    assert len(variant["causes"]) == 1 and "a share of 0.125 was assumed" in variant["causes"][0]


class Finite(Deciding):
    def forward(self, x):
        y = self.linear(x)
        if torch.isnan(y).any() or not torch.isfinite(y).all():
            y = y.clamp(-1, 1)
        return y


def test_values_are_taken_to_be_finite(tmp_path):
    names = [name for name, _ in calls(capture(Finite(), torch.randn(2, 4), tmp_path, **LOSS))]
    assert "aten.isnan.default" in names and "aten.clamp.default" not in names


def test_wrapped_modules_are_refused(tmp_path):
    for wrapped, word in (
        (torch.compile(mlp()), "torch.compile"), (nn.DataParallel(mlp()), "DataParallel"),
        (nn.Sequential(torch.compile(mlp())), "submodule 0"), (nn.LazyLinear(4), "no shape yet"),
        (torch.jit.script(mlp()), "TorchScript"),
    ):
        with pytest.raises(vramfit.CaptureError, match=word):
            capture(wrapped, torch.randn(2, 8), tmp_path, **LOSS)
    with pytest.raises(vramfit.CaptureError, match="needed a torch.nn.Module"):
        capture(lambda x: x, torch.randn(2, 8), tmp_path, **LOSS)
    with pytest.raises(vramfit.CaptureError, match="needed a dict of keyword arguments"):
        capture(mlp(), 3, tmp_path, **LOSS)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)
        self.register_buffer("scale", torch.ones(4), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return self.second(self.first(x)) * self.scale


def test_tied_and_frozen_parameters_and_buffers(tmp_path):
    contents = capture(Tied(), torch.randn(2, 4), tmp_path, **LOSS)
    assert [entry["names"] for entry in contents["parameters"]] == [["first.weight", "second.weight"], ["first.bias"], ["second.bias"]]
    assert [entry["requires_grad"] for entry in contents["parameters"]] == [True, True, False]
    assert [(entry["names"], entry["persistent"]) for entry in contents["buffers"]] == [(["scale"], False), (["count"], True)]
    assert contents["move_order"] == [0, 1, 2, 3, 4]
    linears = [step for name, step in calls(contents) if name == "aten.linear.default"]
    assert [step[2][1:] for step in linears] == [["%0", "%1"], ["%0", "%2"]]
    replay = Replay(contents, "fp32", "train", {})
    assert [replay.rows[number][3] & 1 for number in range(5)] == [1, 1, 0, 0, 0]


class Lifetimes(nn.Module):
    def forward(self, x):
        y = x + 1
        z = y * 2
        y = z.view(-1)
        z.add_(1)
        del z
        return y.sin()


def test_views_in_place_calls_and_frees(tmp_path):
    contents = capture(Lifetimes(), torch.randn(3, 4), tmp_path, **LOSS)
    replay = Replay(contents, "fp32", "train", {"batch": 3})
    shown = [(contents["operators"][step[1]][0], step[3]) if step[0] == "call" else tuple(step) for step in replay.steps if step[0] in ("call", "free")]
    assert shown == [
        ("aten.add.Tensor", ["%1"]), ("aten.mul.Tensor", ["%2"]), ("aten.view.default", ["%3"]), ("free", [1]),
        ("aten.add_.Tensor", ["%2"]), ("free", [2]), ("aten.sin.default", ["%4"]), ("free", [3]), ("aten.sum.default", ["%5"]),
    ]
    assert replay.rows[2][1] == replay.rows[3][1] and replay.rows[3][3] & 8 and not replay.rows[2][3] & 8
    assert len({replay.rows[number][1] for number in (1, 2, 4, 5)}) == 4


class Places(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        assert x.is_cuda and x.device.type == "cuda" and not x.is_meta and not x.is_cpu and x.get_device() == 0
        here = torch.zeros(4, device=x.device)
        host = torch.ones(4)
        assert not host.is_cuda and host.device.type == "cpu"
        moved = host.to(x.device)
        also = host.cuda()
        named = torch.full((4,), 2.0, device="cuda")
        with torch.device("cuda"):
            inside = torch.arange(4)
        scale = torch.tensor(3.0)
        there = torch.tensor([1.0, 2.0, 3.0, 4.0], device=x.device)
        back = self.linear(x).mean().cpu()
        assert back.device.type == "cpu" and inside.is_cuda
        return self.linear(x) * scale + here + moved + also + named + inside + there


def test_every_tensor_has_the_place_it_would_have_in_training(tmp_path):
    contents = capture(Places(), torch.randn(2, 4), tmp_path, **LOSS)
    replay = Replay(contents, "fp32", "train", {"batch": 2})
    place = {}
    for name, step in calls(contents):
        place.setdefault(name, []).append(bool(replay.rows[int(step[3][0][1:])][3] & 4))
    assert place["aten.zeros.default"] == [False] and place["aten.ones.default"] == [True]
    assert place["aten.full.default"] == [False] and place["aten.arange.default"] == [False]
    assert place["vramfit.tensor"] == [True, False]
    copies = [flag for name, flags in place.items() if name.startswith("aten.to.") for flag in flags]
    assert sorted(copies) == [False, False, True]
    assert place["aten.linear.default"] == [False, False]


class LikeOthers(nn.Module):
    """Moves tensors to the device of others, as XLNet and DeBERTa do for their masks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, mask, x):
        known = (mask > 0).to(x.dtype)
        moved, cast = torch.eye(4).to(known), torch.eye(4).type_as(known)
        assert moved.is_cuda and cast.is_cuda and torch.eye(4).to(torch.ones(1)).is_cpu
        return self.linear(x) @ (moved + cast)


def test_a_tensor_that_is_moved_to_where_a_known_one_is_goes_to_the_gpu(tmp_path):
    contents = capture(LikeOthers(), {"mask": torch.ones(2, 3, dtype=torch.int64), "x": torch.randn(2, 4)}, tmp_path, **LOSS)
    replay = Replay(contents, "fp32", "train", {"batch": 2})
    sums = [step for name, step in calls(contents) if name == "aten.add.Tensor"]
    assert sums and not any(replay.rows[int(step[3][0][1:])][3] & 4 for step in sums)


def test_a_capture_in_one_thread_does_not_disturb_another(tmp_path):
    stop, failures = threading.Event(), []

    def work():
        model = mlp()
        while not stop.is_set():
            out = model(torch.randn(3, 8))
            if out.device.type != "cpu" or not out.requires_grad:
                failures.append(out)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        case = CASES["bert"]
        case.capture(case.build(), tmp_path / "model.vramfit")
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_a_model_built_in_half_precision_keeps_it_as_built(tmp_path):
    case = Case(lambda: mlp().bfloat16(), torch.randn(4, 8).bfloat16(), torch.zeros(4, dtype=torch.long), cross_entropy)
    case.capture(case.build(), tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    assert Replay(contents, "as-built", "train", {}).types[0][0] == "bfloat16"
    assert Replay(contents, "fp32", "train", {}).types[0][0] == "float32"
    mixed = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).double())
    mixed.forward = lambda x: mixed[1](mixed[0](x).double())
    contents = capture(mixed, torch.randn(2, 4), tmp_path, **LOSS)
    assert {kind[0] for kind in Replay(contents, "as-built", "train", {}).types} == {"float32", "float64"}


def test_auxiliary_outputs_and_nested_targets(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return {"a": self.linear(x), "b": (x, None)}

    contents = capture(
        Two(), torch.randn(2, 4), tmp_path, targets={"a": LABELS, "b": torch.zeros(2, 4)},
        loss=lambda o, t: cross_entropy(o["a"], t["a"] % 4) + ((o["b"][0] - t["b"]) ** 2).mean(),
    )
    variant = contents["variants"][0]
    assert variant["outputs"]["class"] == "dict" and variant["outputs"]["items"]["b"]["items"] == ["%2", None]
    assert variant["outputs"]["keys"] is True
    assert [entry["name"] for entry in contents["targets"]] == ["targets.a", "targets.b"]


def test_no_loss_is_said_to_be_none(tmp_path):
    assert capture(mlp(), torch.randn(2, 8), tmp_path)["variants"][0]["loss"] is None


class Expanded(Deciding):
    def forward(self, x):
        y = self.linear(x)
        wide = y[:, None].expand(-1, 3, -1)
        return y.sum() + wide[wide > 0].sum() + wide[torch.ones(x.shape[0], 3, 4, dtype=torch.bool)].sum()


def test_a_selection_from_an_expanded_tensor_is_captured(tmp_path):
    variant = capture(Expanded(), torch.randn(2, 4), tmp_path)["variants"][0]
    assert "a share of 0.5 was assumed" in variant["causes"][0]


class Drops(nn.Module):
    """Drops its layers at random, as speech models do."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or torch.rand([]) >= 0.1:
                x = layer(x)
        return self.head(x)


def assumed(contents, precision="fp32", mode="train"):
    found = [variant for variant in contents["variants"] if (variant["precision"], variant["mode"]) == (precision, mode)]
    return {variant.get("assumed", "expected"): contents["steps"][variant["steps"]] for variant in found}


def linears(contents, steps):
    return sum(step[0] == "call" and contents["operators"][step[1]][0] == "aten.linear.default" for step in steps)


def test_a_pass_that_random_numbers_decide_on_is_recorded_with_all_layers_and_with_none(tmp_path):
    contents = capture(Drops(), torch.randn(4, 8), tmp_path, **LOSS)
    recorded = assumed(contents)
    assert list(recorded) == ["expected", "least"]
    assert [linears(contents, steps) for steps in recorded.values()] == [4, 1]
    assert list(assumed(contents, "as-built")) == ["expected", "least"]
    assert list(assumed(contents, mode="eval")) == ["expected"]


def test_a_pass_that_values_decide_on_is_recorded_with_everything_chosen_and_with_nothing(tmp_path):
    contents = capture(Selecting(), torch.randn(8, 4), tmp_path, **LOSS)
    assert list(assumed(contents)) == ["expected", "least", "most"]
    estimate = vramfit.estimate(str(tmp_path / "model.vramfit"), batch=1 << 20, gpu="H200")
    share = [vramfit.estimate(Selecting(), torch.randn(8, 4), share=share, batch=1 << 20, gpu="H200", **LOSS) for share in (0, 1)]
    assert estimate.range.low <= share[0].peak_allocated < estimate.peak_allocated < share[1].peak_allocated <= estimate.range.high


class NeedsOne(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x)
        return x[x > 0].view(2, -1).max(1).values


def test_a_bound_that_the_model_does_not_run_with_is_named(tmp_path):
    contents = capture(NeedsOne(), torch.randn(8, 4), tmp_path, **LOSS)
    assert list(assumed(contents)) == ["expected", "most"]
    causes = next(variant for variant in contents["variants"] if variant["precision"] == "fp32" and variant["mode"] == "train")["causes"]
    assert "the bounds do not cover that nothing is chosen by the assumed values: the model does not run so" in causes


class Remembering(nn.Module):
    """Keeps a tensor in a cache of its class, which no module has, as functions with ``lru_cache`` do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @staticmethod
    @functools.lru_cache(maxsize=4)
    def positions(count, device):
        return torch.arange(0.5, count, device=device) / count

    def forward(self, x):
        return self.linear(x) * self.positions(4, x.device)


def test_a_tensor_that_an_earlier_pass_left_in_a_cache_is_on_the_gpu_and_a_cause(tmp_path):
    Remembering.positions.cache_clear()
    first = capture(Remembering(), torch.randn(2, 4), tmp_path, sizes={}, **LOSS)
    again = capture(Remembering(), torch.randn(2, 4), tmp_path, sizes={}, **LOSS)
    for contents in (first, again):
        assert all(any("a cache" in cause for cause in variant["causes"]) for variant in contents["variants"])
    variant = again["variants"][0]
    assert len(variant["constants"]) == 1 and any("left there" in cause for cause in variant["causes"])


class Positioned(nn.Module):
    """Returns a tensor that a cache keeps, too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @staticmethod
    @functools.lru_cache(maxsize=8)
    def positions(shape, device):
        return torch.ones(shape, device=device).cumsum(0)

    def forward(self, x):
        return self.linear(x), self.positions(x.shape, x.device)


def test_a_returned_tensor_that_a_cache_keeps_is_found_there_as_in_later_steps(tmp_path):
    Positioned.positions.cache_clear()
    contents = capture(Positioned(), torch.randn(2, 4), tmp_path, loss=lambda outputs, _: outputs[0].sum())
    for variant in contents["variants"]:
        assert len(variant["constants"]) == 1 and f"%{variant['constants'][0]}" in str(variant["outputs"])
        assert any("left there" in cause for cause in variant["causes"])
    assert "aten.cumsum.default" not in [contents["operators"][step[1]][0] for steps in contents["steps"] for step in steps if step[0] == "call"]


class Storing(nn.Module):
    """Returns a tensor that it stores and makes anew in each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.last = {}

    def forward(self, x):
        self.last["x"] = self.linear(x)
        return self.last["x"]


def test_a_returned_tensor_that_every_pass_makes_anew_is_no_cache(tmp_path):
    contents = capture(Storing(), torch.randn(2, 4), tmp_path, **LOSS)
    assert all(not variant["constants"] and "causes" not in variant for variant in contents["variants"])


class Merging(nn.Module):
    """A batch of one is merged with the heads without a copy, and copied then; others are copied when they are merged."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        heads = self.linear(x).view(x.shape[0], 5, 2, 4).permute(0, 2, 3, 1)
        return heads.reshape(2 * x.shape[0], 4, 5).contiguous()


def test_contiguous_is_recorded_where_it_changes_nothing(tmp_path):
    contents = capture(Merging(), torch.randn(1, 5, 8), tmp_path, **LOSS)
    names = [contents["operators"][step[1]][0] for step in contents["steps"][0] if step[0] == "call"]
    assert "aten.contiguous.default" in names
