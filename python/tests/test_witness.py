"""The real model, recorded at the dispatcher's lowest level, makes the capture's calls and holds the same memory.

The capture's calls are composites. Run one by one on the CPU, they expand into calls at the dispatcher's lowest level, which
must be those that the model itself makes. After each call the live bytes are compared too: that shows a tensor which a capture
frees too late or too early.
"""

import copy
import random
import weakref

import pytest
import torch
from replay import Replay, given_tensors, load
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from zoo import CASES, NAMES

# Calls of torch.tensor() and of indexing with numbers, which the replay does differently.
SILENT = {"aten.lift_fresh.default", "aten.detach_.default", "aten.empty.memory_format", "aten.scalar_tensor.default"}


class Witness(TorchDispatchMode):
    """Records calls and the live bytes after each."""

    def __init__(self) -> None:
        super().__init__()
        self.log = []
        self.alive = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            # The number in an assignment stays on the host, if there is a tensor for it at all.
            is_number = str(func) in SILENT and isinstance(tensor, torch.Tensor) and not tensor.dim()
            if isinstance(tensor, torch.Tensor) and not is_number and id(tensor) not in self.alive:
                key = id(tensor)
                storage = tensor.untyped_storage()
                entry = (storage._cdata, storage.nbytes())
                self.alive[key] = (weakref.ref(tensor, lambda _, key=key: self.alive.pop(key, None)), entry)
        if str(func) not in SILENT:
            # From torch 2.15 on, a separate operator assigns a number; neither takes memory on a GPU.
            name = str(func).replace("aten.fill_.Scalar", "aten.fill_.Tensor")
            self.log.append((name, sum(dict(entry for _, entry in self.alive.values()).values())))
        return result


# Layer drop is random: the capture and the model drop different layers, as two trainings would.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "opt-layerdrop"])
def test_the_model_itself_makes_the_same_calls_and_holds_the_same_bytes(name, tmp_path):
    case = CASES[name]
    torch.manual_seed(0)
    model = case.build()
    case.capture(model, tmp_path / "model.vramfit")
    contents = load(tmp_path / "model.vramfit")
    sizes = {symbol["name"]: symbol["example"] for symbol in contents["symbols"]}
    logs = []
    for replayed in (False, True):
        own = copy.deepcopy(model).train()
        witness = Witness()
        torch.manual_seed(0)
        random.seed(0)
        # Without gradients, so that tensors saved by autograd do not hide what Python holds.
        with torch.no_grad(), witness:
            if replayed:
                replay = Replay(contents, "fp32", "train", sizes)
                replay.variant = dict(replay.variant, grad=False, mode="eval")
                replay.check = False
                replay.run(given_tensors(contents, own, case.named_inputs(contents)))
            else:
                held = case.step(own)
        logs.append(witness.log)
    real, captured = logs
    for at, (expected, found) in enumerate(zip(real, captured)):
        assert found == expected, f"call {at}: the model {expected}, the capture {found}, before: {real[max(at - 3, 0):at]}"
    assert len(real) == len(captured)
    del held
