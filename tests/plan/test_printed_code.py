"""The code that `vramfit plan` prints runs without changes, and tricks without effect give the plain loop's gradients."""

import dataclasses
import json
import os
import subprocess
from collections import OrderedDict

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
    command = [os.environ["VRAMFIT"], "plan", str(captures / f"{name}.vramfit"), "--json", "--margin", "0", *flags]
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
    batches = [({"x": x}, y) for x, y in zip(inputs.chunk(count), targets.chunk(count))]
    assert len(batches) == count and (settings["batch"] is None or len(batches[0][1]) == settings["batch"])
    names = {"model": model, "batches": batches, "compute_loss": loss_function}
    assert code.count('device = "cuda"') == 1
    on_cpu = code.replace('device = "cuda"', 'device = "cpu"').replace("pin_memory=True", "pin_memory=False")
    exec(compile(on_cpu, "printed", "exec"), names)
    if settings["step_in_backward"]:
        # Each gradient has been used and freed: the new weights tell what it was.
        assert all(weight.grad is None for weight in model.parameters())
        return None, names
    return {key: weight.grad.float() for key, weight in model.named_parameters()}, names


def new_weights(name, code, settings, batch=BATCH):
    """The weights after one step over the same samples."""
    _, names = gradients(name, code, settings, batch)
    return {key: weight.detach().float() for key, weight in names["model"].named_parameters()}


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
    ("--checkpoint", "blocks", "--checkpoint-save", "matmul"),
    ("--offload-activations", "pinned"),
    ("--offload-activations", "pageable", "--checkpoint", "blocks"),
    ("--ema",),
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


UPDATES = [
    ("--step-in-backward",),
    ("--optimizer-state", "cpu"),
    ("--optimizer-state", "cpu", "--step-in-backward"),
    ("--step-in-backward", "--checkpoint", "blocks", "--outputs", "released"),
]


@pytest.mark.parametrize("flags", UPDATES, ids=" ".join)
def test_other_ways_to_update_give_the_same_weights(captures, flags):
    start = plan(captures, "blocks", "--vram", "1GiB")["start"]
    other = plan(captures, "blocks", "--vram", "1GiB", *flags)["start"]
    found = [new_weights("blocks", one["code"], one["settings"]) for one in (start, other)]
    assert_same(found[1], found[0])


@pytest.mark.parametrize("name, library", [("adamw8bit", "bitsandbytes"), ("paged-lion", "bitsandbytes"), ("adafactor-hf", "transformers")])
def test_optimizers_of_other_libraries_are_written_as_they_take_it(captures, name, library):
    pytest.importorskip(library)
    start = plan(captures, "blocks", "--vram", "1GiB", "--optimizer", name)["start"]
    _, names = gradients("blocks", start["code"], start["settings"])
    assert type(names["optimizer"]).__module__.startswith(library)


def test_muon_is_written_with_adamw_for_what_is_no_matrix(captures, plain):
    start = plan(captures, "blocks", "--vram", "1GiB", "--optimizer", "muon")["start"]
    found, names = gradients("blocks", start["code"], start["settings"])
    assert_same(found, plain["blocks"])
    muon, adamw = names["optimizers"]
    assert [weight.dim() for group in muon.param_groups for weight in group["params"]] == [2] * 13
    assert all(weight.dim() == 1 for group in adamw.param_groups for weight in group["params"])


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


PRECISIONS = [
    ("--amp", "bf16"),
    ("--amp", "fp16", "--clip-grad"),
    ("--dtype", "bf16"),
    ("--dtype", "bf16", "--inputs", "fresh", "--channels-last"),
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("flags", PRECISIONS, ids=" ".join)
def test_other_precisions_run(captures, name, flags):
    if name == "blocks" and "--channels-last" in flags:
        pytest.skip("no images")
    start = plan(captures, name, "--vram", "1GiB", *flags)["start"]
    found, names = gradients(name, start["code"], start["settings"])
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
        values, names = gradients(name, found["code"], settings, batch)
        if found["effect"] == "none":
            assert batch == BATCH
            if values is not None:
                assert_same(values, plain[name])
            else:
                start = answer["start"]
                weights = {key: weight.detach().float() for key, weight in names["model"].named_parameters()}
                assert_same(weights, new_weights(name, start["code"], start["settings"]))


class Returning(nn.Module):
    """Gives its loss or its logits in one of the ways models do."""

    def __init__(self, pack):
        super().__init__()
        self.hidden = nn.Linear(32, 64)
        self.head = nn.Linear(64, 10)
        self.pack = pack

    def forward(self, x, labels=None):
        hidden = torch.relu(self.hidden(x))
        logits = self.head(hidden)
        loss = None if labels is None else loss_function(logits, labels)
        return self.pack(loss, logits, hidden)


@dataclasses.dataclass
class Returned:
    loss: torch.Tensor
    logits: torch.Tensor


class Keyed(dict):
    """A dictionary under another name, without attributes."""


WITH_LOSS = {
    "outputs[0]": lambda loss, logits, hidden: (loss, logits),
    "outputs": lambda loss, logits, hidden: loss,
    'outputs["loss"]': lambda loss, logits, hidden: {"logits": logits, "loss": loss},
    "outputs.loss": lambda loss, logits, hidden: Returned(loss, logits),
    "outputs['loss']": lambda loss, logits, hidden: Keyed(loss=loss, logits=logits),
}


def run_returning(code, pack, inputs, targets=None):
    torch.manual_seed(0)
    model = Returning(pack)
    batches = [inputs if targets is None else (inputs, targets)]
    names = {"model": model, "batches": batches}
    exec(compile(code.replace('device = "cuda"', 'device = "cpu"'), "printed", "exec"), names)
    return {key: weight.grad for key, weight in model.named_parameters()}


@pytest.mark.parametrize("way", WITH_LOSS)
def test_a_returned_loss_is_taken_from_where_the_model_has_it(tmp_path, way):
    inputs = {"x": torch.randn(8, 32), "labels": torch.randint(0, 10, (8,))}
    vramfit.capture(Returning(WITH_LOSS[way]), inputs, str(tmp_path / "model.vramfit"))
    code = plan(tmp_path, "model", "--vram", "1GiB", "--optimizer", "sgd")["start"]["code"]
    accessor = way.replace("'", '"')
    assert f"    loss = {accessor}\n" in code, code
    found = run_returning(code, WITH_LOSS[way], inputs)
    torch.manual_seed(0)
    model = Returning(lambda loss, logits, hidden: loss)
    model(**inputs).backward()
    assert_same(found, {key: weight.grad for key, weight in model.named_parameters()})


ADDED = {
    "outputs": (lambda loss, logits, hidden: logits, (8, 32)),
    # As torchvision's segmentation models.
    'outputs["out"]': (lambda loss, logits, hidden: OrderedDict(out=logits, aux=hidden), (8, 32)),
    # The first one, though lists drop their last one first.
    "outputs[0]": (lambda loss, logits, hidden: (logits, hidden), (8, 32)),
    "outputs.flatten(0, 1)": (lambda loss, logits, hidden: logits, (8, 5, 32)),
    "outputs[0].flatten(0, 1)": (lambda loss, logits, hidden: [logits, hidden], (8, 5, 32)),
}


@pytest.mark.parametrize("way", ADDED)
def test_an_added_loss_takes_the_first_output_from_where_the_model_has_it(tmp_path, way):
    pack, shape = ADDED[way]
    inputs, targets = {"x": torch.randn(shape)}, torch.randint(0, 10, shape[:-1])
    vramfit.capture(Returning(pack), inputs, str(tmp_path / "model.vramfit"))
    for flags in ((), ("--accumulate", "2", "--inputs", "fresh", "--amp", "bf16", "--outputs", "released")):
        start = plan(tmp_path, "model", "--vram", "1GiB", "--optimizer", "sgd", *flags)["start"]
        code = start["code"]
        assert way in code and all(len(line) <= 80 for line in code.splitlines()), code
        found = run_returning(code, pack, inputs, targets)
        assert all(value is not None for value in found.values())
    estimate = [os.environ["VRAMFIT"], "estimate", str(tmp_path / "model.vramfit"), "--json"]
    holders = json.loads(subprocess.run(estimate, capture_output=True, text=True, check=True).stdout)["holders"]
    target = next(holder for holder in holders if holder["module"] == "the added loss's target")
    assert target["bytes"] == -(-8 * targets.numel() // 512) * 512


@pytest.mark.parametrize("name", ("sgd", "nesterov", "adam", "adagrad", "adadelta", "rmsprop", "adamax", "nadam", "radam", "adafactor"))
def test_a_weight_decay_is_written_as_torch_takes_it(captures, plain, name):
    flags = ("--optimizer", name, "--weight-decay", "--cudnn-benchmark")
    before = torch.backends.cudnn.benchmark
    start = plan(captures, "blocks", "--vram", "1GiB", *flags)["start"]
    found, names = gradients("blocks", start["code"], start["settings"])
    assert names["optimizer"].param_groups[0]["weight_decay"] == 0.01
    assert torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before
    assert_same(found, plain["blocks"])


def test_only_activations_whose_input_nobody_needs_are_in_place(captures, plain):
    answer = plan(captures, "images", "--vram", "1GiB")
    row = next(row for row in answer["tricks"] if row["trick"] == "in-place activations")
    assert row["applies"] and "2 activations" in row["options"][0]["what"], row
