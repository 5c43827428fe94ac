"""Keywords become the command line's flags, or an error that suggests the nearest; live optimizers become names."""

import pathlib

import pytest
import torch
from vramfit import SettingError
from vramfit.asking.optimizers import describe
from vramfit.asking.settings import OPTIMIZERS, SETTINGS, flags
from vramfit.binary import run


def test_every_keyword_is_a_flag_that_the_binary_knows():
    # It has every flag of `estimate` and its own.
    _, text = run(["plan", "--help"])
    for name in SETTINGS:
        flag = {"inputs_are": "--inputs", "add_loss": "--loss"}.get(name, "--" + name.replace("_", "-"))
        assert f"{flag} " in text or f"{flag}\n" in text, flag


def test_every_flag_of_the_binary_is_a_keyword():
    _, text = run(["estimate", "--help"])
    found = {word.strip(",") for line in text.splitlines() for word in line.split()[:2] if word.startswith("--")}
    known = {"--inputs" if name == "inputs_are" else "--loss" if name == "add_loss" else "--" + name.replace("_", "-") for name in SETTINGS}
    assert found - known <= {"--html", "--verbose", "--json", "--color[=<WHEN>]", "--no-color", "--help"}


def test_every_optimizer_name_is_one_of_the_binary():
    for name in OPTIMIZERS:
        run(["estimate", "--optimizer", name, "--", "bert-base"])


@pytest.mark.parametrize("given, flag", [
    (dict(batch=4), ["--batch", "4"]), (dict(vram=1 << 30), ["--vram", "1073741824B"]), (dict(vram="11GiB"), ["--vram", "11GiB"]),
    (dict(clip_grad=True), ["--clip-grad"]), (dict(clip_grad=False), []), (dict(set_to_none=False), ["--set-to-none", "false"]),
    (dict(size={"x": (4, 3), "h": 2}), ["--size", "x=4x3", "--size", "h=2"]), (dict(checkpoint=["a", "b.*"]), ["--checkpoint", "a,b.*"]),
    (dict(inputs_are="fresh"), ["--inputs", "fresh"]), (dict(gpu=None), []), (dict(cudnn=pathlib.Path("/a/b")), ["--cudnn", "/a/b"]),
    (dict(cudnn="off"), ["--cudnn", "off"]), (dict(lora=True), ["--lora"]), (dict(lora=16), ["--lora", "16"]), (dict(lora=False), []),
    (dict(lora_targets=["q", "v"]), ["--lora-targets", "q,v"]), (dict(quantize="nf4"), ["--quantize", "nf4"]),
])
def test_keywords_become_flags(given, flag):
    assert flags(given) == flag


@pytest.mark.parametrize("given, said", [
    (dict(batchs=4), "did you mean 'batch'?"), (dict(optimiser="adam"), "did you mean 'optimizer'?"), (dict(batch=0), "found 0"),
    (dict(batch=True), "found True"), (dict(amp="bf61"), "did you mean 'bf16'?"), (dict(vram=-1), "found -1"), (dict(clip_grad=1), "found 1"),
    (dict(cudnn=3), "found 3"), (dict(size=3), "found 3"), (dict(size={"h": "x"}), "found 'x'"), (dict(optimizer="adamx"), "did you mean 'adam"),
])
def test_what_is_no_setting_is_refused_with_the_nearest(given, said):
    with pytest.raises(SettingError) as refused:
        flags(given)
    assert said in str(refused.value)


def weights():
    return torch.nn.Linear(2, 2)


@pytest.mark.parametrize("make, name, implementation, decay", [
    (lambda p: torch.optim.AdamW(p), "adamw", "default", False),
    (lambda p: torch.optim.AdamW(p, amsgrad=True, fused=True), "amsgrad", "fused", False),
    (lambda p: torch.optim.Adam(p, weight_decay=0.1, foreach=False), "adam", "for-loop", True),
    (lambda p: torch.optim.Adam(p, fused=False), "adam", "for-loop", False),
    (lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=1e-4), "momentum", "default", True),
    (lambda p: torch.optim.SGD(p, momentum=0.9, nesterov=True, foreach=True), "nesterov", "foreach", False),
    (lambda p: torch.optim.SGD(p), "sgd", "default", False),
    (lambda p: torch.optim.NAdam(p, weight_decay=0.1, decoupled_weight_decay=True), "nadam", "default", False),
    (lambda p: torch.optim.Adafactor(p, weight_decay=0.1), "adafactor", "default", False),
])
def test_a_live_optimizer_gets_its_names(make, name, implementation, decay):
    described = describe(make(weights().parameters()))
    assert (described.name, described.implementation, described.weight_decay, described.causes) == (name, implementation, decay, ())


def test_state_that_is_not_modelled_is_refused():
    for arguments in (dict(momentum=0.9), dict(centered=True)):
        with pytest.raises(SettingError, match="not modelled"):
            describe(torch.optim.RMSprop(weights().parameters(), **arguments))
    with pytest.raises(SettingError, match="LBFGS"):
        describe(torch.optim.LBFGS(weights().parameters()))


def test_what_only_moves_temporary_memory_is_told():
    model = weights()
    one, other = model.parameters()
    assert "2 groups" in describe(torch.optim.AdamW([{"params": [one]}, {"params": [other]}])).causes[0]
    assert "maximize" in describe(torch.optim.Adam([one], maximize=True)).causes[0]
    stranger = torch.nn.Parameter(torch.zeros(2))
    assert "1 of its parameters" in describe(torch.optim.Adam([one, stranger]), model).causes[0]
    mixed = torch.optim.SGD([{"params": [one], "momentum": 0.9}, {"params": [other]}])
    assert "differ in more than weight decay" in describe(mixed, model).causes[0]


def test_groups_are_numbers_of_weights_in_the_optimizers_order():
    model = torch.nn.Sequential(weights(), weights(), weights())
    all_of_them = list(model.parameters())
    assert describe(torch.optim.AdamW(all_of_them), model).groups is None
    decayed = [weight for weight in all_of_them if weight.dim() > 1]
    others = [weight for weight in all_of_them if weight.dim() == 1]
    two = torch.optim.Adam([{"params": decayed, "weight_decay": 0.1}, {"params": others}])
    described = describe(two, model)
    assert (described.groups, described.weight_decay, described.causes) == ("decay:0,2,4;1,3,5", False, ())
    assert describe(torch.optim.AdamW([{"params": all_of_them[3:]}, {"params": all_of_them[:2]}]), model).groups == "3-5;0-1"
    model[0].requires_grad_(False)
    assert describe(torch.optim.AdamW(all_of_them), model).groups is None
    assert describe(torch.optim.AdamW(all_of_them[4:]), model).groups == "4-5"


@pytest.mark.parametrize("kind, name", [
    ("AdamW8bit", "adamw8bit"), ("Adam8bit", "adam8bit"), ("Lion8bit", "lion8bit"), ("Lion", "lion"), ("PagedAdamW8bit", "paged-adamw8bit"),
    ("PagedAdam8bit", "paged-adamw8bit"), ("PagedAdamW", "paged-adamw"), ("PagedLion8bit", "paged-lion8bit"), ("PagedLion", "paged-lion"),
])
def test_optimizers_of_bitsandbytes_get_their_names(kind, name):
    bitsandbytes = pytest.importorskip("bitsandbytes")
    described = describe(getattr(bitsandbytes.optim, kind)(weights().parameters()))
    assert (described.name, described.implementation, described.causes) == (name, "default", ())


def test_what_bitsandbytes_does_otherwise_is_told_or_refused():
    bitsandbytes = pytest.importorskip("bitsandbytes")
    assert "min_8bit_size=16384" in describe(bitsandbytes.optim.AdamW8bit(weights().parameters(), min_8bit_size=16384)).causes[0]
    for kind in ("AdamW32bit", "RMSprop8bit"):
        with pytest.raises(SettingError, match=kind):
            describe(getattr(bitsandbytes.optim, kind)(weights().parameters(), lr=0.1))


def test_muon_and_the_adafactor_of_transformers_get_their_names():
    transformers = pytest.importorskip("transformers")
    model = weights()
    weight, bias = model.parameters()
    assert describe([torch.optim.Muon([weight]), torch.optim.AdamW([bias])]).causes == ()
    assert describe(torch.optim.Muon([weight])).name == "muon"
    with pytest.raises(SettingError, match="2 optimizers"):
        describe([torch.optim.AdamW([weight]), torch.optim.AdamW([bias])])
    adafactor = transformers.optimization.Adafactor
    described = describe(adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False), model)
    assert (described.name, described.causes) == ("adafactor-hf", ())
    assert "relative_step" in describe(adafactor(model.parameters())).causes[0]
    with pytest.raises(SettingError, match="beta1"):
        describe(adafactor(model.parameters(), beta1=0.9))
