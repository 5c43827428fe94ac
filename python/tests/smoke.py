"""A short check of everything that depends on torch's version. Prints one line of JSON, which must not depend on it.

    PYTHONPATH=python:python/tests python3 python/tests/smoke.py
"""

import copy
import json
import warnings

import torch
import vramfit
from small import blocks, images, loss_function


def main():
    found = {}
    for name, make in (("blocks", blocks), ("images", images)):
        model, inputs, targets = make()
        common = dict(targets=targets, loss=loss_function)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        found[name] = [vramfit.estimate(model, inputs, optimizer=optimizer, **common, **more).peak_allocated for more in ({}, dict(amp="bf16"), dict(mode="eval"))]
    model, inputs, targets = blocks()
    needed = vramfit.estimate(model, inputs, **common).peak_reserved
    plan = vramfit.plan(model, inputs, vram=int(needed * 0.97), checkpoint="blocks", targets=targets, loss=loss_function).start
    reference = copy.deepcopy(model)
    loss_function(reference(inputs), targets).backward()
    with plan.apply(model, torch.optim.AdamW(model.parameters())) as applied:
        applied.step(inputs, targets)
        for weight, other in zip(model.parameters(), reference.parameters()):
            assert torch.allclose(weight.grad, other.grad, atol=1e-5)
    lstm = torch.nn.LSTM(8, 8)
    found["lstm"] = vramfit.estimate(lstm, torch.randn(5, 2, 8), loss="mean").peak_allocated
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with vramfit.watch() as watched:
            pass
    assert not watched.recorded
    print(json.dumps({"torch": torch.__version__.split("+")[0], **found}))


if __name__ == "__main__":
    main()
