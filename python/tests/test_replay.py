"""A capture is a complete program: run on the CPU with the real weights, it gives the model's own loss, bit for bit."""

import copy
import random

import pytest
import torch
from replay import Data, Replay, given_tensors, load
from zoo import CASES, NAMES


def seed() -> None:
    torch.manual_seed(0)
    random.seed(0)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "opt-layerdrop"])
def test_a_replayed_capture_gives_the_models_own_loss(name, tmp_path):
    case = CASES[name]
    seed()
    model = case.build()
    case.capture(model, tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    sizes = {symbol["name"]: symbol["example"] for symbol in contents["symbols"]}
    for mode in ("train", "eval-grad", "eval"):
        own = copy.deepcopy(model).train(mode == "train")
        seed()
        with torch.set_grad_enabled(mode != "eval"), Data() as data:
            expected = case.run(own)
        replay = Replay(contents, "fp32", mode, sizes)
        replay.data = data.made
        seed()
        found = replay.run(given_tensors(contents, copy.deepcopy(model), case.named_inputs(contents)))
        # With other addresses, kernels may add in another order, so the last bit may differ.
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, msg=lambda text: f"{mode}: {text}")
        assert replay.checked > 0 or mode == "eval"


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "gemma2", "lstm", "encoder"])
def test_expressions_hold_at_sizes_that_were_never_recorded(name, tmp_path):
    case = CASES[name]
    seed()
    model = case.build()
    case.capture(model, tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    names = {symbol["name"] for symbol in contents["symbols"]}
    assert {"batch", "seq"} <= names
    sizes = {"batch": 6, "seq": 19}
    given = case.named_inputs(contents)
    for entry in (*contents["inputs"], *contents["targets"]):
        shape = [sizes.get(size, size) for size in entry["shape"]]
        tensor = given[entry["name"]]
        for dim, size in enumerate(shape):
            tensor = tensor.index_select(dim, torch.arange(size) % tensor.shape[dim])
        given[entry["name"]] = tensor
    own = copy.deepcopy(model).train()
    seed()
    with Data() as data:
        if isinstance(case.inputs, dict):
            expected = own(**given)["loss"]
        else:
            expected = case.loss(own(given[contents["inputs"][0]["name"]]), given["targets"])
    replay = Replay(contents, "fp32", "train", sizes)
    replay.data = data.made
    seed()
    assert torch.equal(replay.run(given_tensors(contents, copy.deepcopy(model), given)), expected)
