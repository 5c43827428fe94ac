"""The code that `vramfit plan` prints runs as it stands, and tricks without effect give the plain loop's gradients."""

import json
import os
import subprocess

import pytest
import torch
import vramfit
from torch import nn

BATCH = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.act = nn.ReLU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Blocks(nn.Module):
    def __init__(self, width=192, count=6):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(count))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class Images(nn.Module):
    """Activations in place save something only where nothing else holds what they overwrite."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.act = nn.ReLU()
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.leaky = nn.LeakyReLU(0.1)
        self.shared = nn.ReLU()
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = self.act(self.first(x))
        y = self.leaky(self.second(x))
        # The sum is read twice: this one may not be in place.
        z = x + y
        return self.head((self.shared(z) + z).mean((2, 3)))


def loss_function(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets)


MODELS = {"blocks": (Blocks, (BATCH, 24, 192)), "images": (Images, (BATCH, 3, 40, 40))}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    for name, (build, shape) in MODELS.items():
        inputs, targets = {"x": torch.randn(shape)}, torch.randint(0, 10, (BATCH,))
        vramfit.capture(build(), inputs, str(folder / f"{name}.vramfit"), targets=targets, loss=loss_function)
    return folder


def plan(captures, name, *flags):
    command = [os.environ["VRAMFIT"], "plan", str(captures / f"{name}.vramfit"), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def gradients(name, code, settings, batch=BATCH):
    """Of one step over the same samples, however they are divided."""
    build, shape = MODELS[name]
    torch.manual_seed(0)
    model = build()
    torch.manual_seed(1)
    inputs, targets = torch.randn((batch, *shape[1:])), torch.randint(0, 10, (batch,))
    count = settings["accumulate"]
    if settings["precision"] in ("bf16", "fp16"):
        inputs = inputs.to({"bf16": torch.bfloat16, "fp16": torch.float16}[settings["precision"]])
    batches = [({"x": x}, y) for x, y in zip(inputs.chunk(count), targets.chunk(count))]
    assert len(batches) == count and (settings["batch"] is None or len(batches[0][1]) == settings["batch"])
    names = {"model": model, "batches": batches, "compute_loss": loss_function}
    assert code.count('device = "cuda"') == 1
    exec(compile(code.replace('device = "cuda"', 'device = "cpu"'), "printed", "exec"), names)
    return {key: weight.grad.float() for key, weight in model.named_parameters()}, names


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        # Sums over many samples in another order: what counts is the distance, not the smallest number.
        distance = (one[key] - other[key]).norm() / other[key].norm()
        assert distance < 1e-4, (key, float(distance))


@pytest.fixture(scope="module")
def plain(captures):
    """The gradients of the plain loop."""
    found = {}
    for name in MODELS:
        start = plan(captures, name, "--vram", "1GiB")["start"]
        found[name], _ = gradients(name, start["code"], start["settings"])
    return found


WITHOUT_EFFECT = [
    ("--checkpoint", "blocks"),
    ("--checkpoint", "blocks.*.up,head"),
    ("--accumulate", "4", "--batch", "16"),
    ("--outputs", "released"),
    ("--optimizer-impl", "fused"),
    ("--optimizer-impl", "for-loop"),
    ("--zero-grad", "before-backward"),
    ("--set-to-none", "false"),
    ("--inputs", "fresh"),
    ("--alloc-conf", "expandable_segments:True"),
    ("--checkpoint", "blocks", "--accumulate", "2", "--batch", "32", "--outputs", "released", "--inputs", "fresh"),
]


@pytest.mark.parametrize("flags", WITHOUT_EFFECT, ids=" ".join)
def test_settings_without_effect_give_the_same_gradients(captures, plain, flags):
    start = plan(captures, "blocks", "--vram", "1GiB", *flags)["start"]
    found, _ = gradients("blocks", start["code"], start["settings"])
    assert_same(found, plain["blocks"])


OPTIMIZERS = ("adamw", "adam", "sgd", "momentum", "nesterov", "amsgrad", "rmsprop", "adagrad", "adadelta", "adamax")


@pytest.mark.parametrize("name", (*OPTIMIZERS, "nadam", "radam", "adafactor", "none"))
def test_every_optimizer_is_written_as_torch_takes_it(captures, plain, name):
    start = plan(captures, "blocks", "--vram", "1GiB", "--optimizer", name)["start"]
    found, names = gradients("blocks", start["code"], start["settings"])
    assert ("optimizer" in names) == (name != "none")
    assert_same(found, plain["blocks"])


def test_clipped_gradients_have_at_most_length_one(captures):
    start = plan(captures, "blocks", "--vram", "1GiB", "--clip-grad")["start"]
    found, _ = gradients("blocks", start["code"], start["settings"])
    length = torch.sqrt(sum((value**2).sum() for value in found.values()))
    assert length <= 1.001


@pytest.mark.parametrize("flags", [("--amp", "bf16"), ("--amp", "fp16", "--clip-grad"), ("--dtype", "bf16")], ids=" ".join)
def test_other_precisions_run(captures, flags):
    start = plan(captures, "blocks", "--vram", "1GiB", *flags)["start"]
    found, names = gradients("blocks", start["code"], start["settings"])
    assert all(torch.isfinite(value).all() for value in found.values())
    assert ("scaler" in names) == ("fp16" in flags)


@pytest.mark.parametrize("name", MODELS)
def test_plans_without_effect_give_the_same_gradients(captures, plain, name):
    needed = plan(captures, name, "--vram", "1GiB")["start"]["peak_reserved"]
    # Without room cuDNN does with less, so that a model of convolutions may still fit in less than it takes.
    for share in (0.75, 0.6, 0.5, 0.4):
        answer = plan(captures, name, "--vram", f"{int(needed * share)}B")
        if answer["start"]["verdict"] != "fits":
            break
    assert answer["start"]["verdict"] != "fits"
    for found in answer["plans"]:
        assert found["peak_reserved"] <= needed * share
        settings = found["settings"]
        batch = settings["batch"] * settings["accumulate"]
        values, _ = gradients(name, found["code"], settings, batch)
        if found["effect"] == "none":
            assert batch == BATCH
            assert_same(values, plain[name])


def test_only_activations_whose_input_nobody_needs_are_in_place(captures, plain):
    answer = plan(captures, "images", "--vram", "1GiB")
    row = next(row for row in answer["tricks"] if row["trick"] == "in-place activations")
    assert row["applies"] and "2 activations" in row["options"][0]["what"], row
