"""The training loop of the protocol. Its variables hold what a real script holds.

Add no local variable that keeps a tensor alive, because lifetimes are what is measured.
"""

import torch
from memory_tricks import offload
from settings import autocast, make_scaler
from spread import micro_batch


def loss_of(outputs, targets, function):
    return function(outputs, targets) if function else outputs.loss


def train(case, model, inputs, targets, function, optimizers, device, phase, steps=3, before_backward=None, averaged=None):
    """`inputs` and `targets` are on the device, or on the CPU for fresh ones.

    `optimizers` are those that the loop itself calls. `phase(step, name, micro)` is called at the end of each phase,
    `phase.end()` while all is still bound.
    """
    scaler = make_scaler(case.amp, device)
    kept = case.inputs == "kept"
    given, wanted = inputs, targets
    if not kept:
        inputs = targets = None
    for step in range(steps):
        if case.zero_grad == "before-forward":
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=case.set_to_none)
        for micro in range(case.accumulate):
            if not kept:
                inputs = {name: tensor.to(device) for name, tensor in given.items()}
                targets = wanted.to(device) if wanted is not None else None
            with micro_batch(case, model, micro + 1 == case.accumulate):
                with offload(case.offload_activations), autocast(case.amp, device):
                    outputs = model(**inputs)
                    if case.accumulate == 1:
                        loss = loss_of(outputs, targets, function)
                    else:
                        loss = loss_of(outputs, targets, function) / case.accumulate
                phase(step, "forward", micro)
                if before_backward:
                    before_backward(loss)
                if case.zero_grad == "before-backward" and micro == 0:
                    for optimizer in optimizers:
                        optimizer.zero_grad(set_to_none=case.set_to_none)
                if scaler:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
            phase(step, "backward", micro)
        if case.clip_grad:
            if scaler:
                for optimizer in optimizers:
                    scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            if scaler:
                scaler.step(optimizer)
            else:
                optimizer.step()
        if scaler:
            scaler.update()
        if averaged is not None:
            averaged.update_parameters(model)
        phase(step, "step", None)
    phase.end()


def evaluate(case, model, inputs, targets, function, device, phase, steps=3):
    """With `grad` the graph is kept, else no_grad."""
    kept = case.inputs == "kept"
    given, wanted = inputs, targets
    if not kept:
        inputs = targets = None
    with torch.set_grad_enabled(case.grad):
        for step in range(steps):
            if not kept:
                inputs = {name: tensor.to(device) for name, tensor in given.items()}
                targets = wanted.to(device) if wanted is not None else None
            with autocast(case.amp, device):
                outputs = model(**inputs)
                loss = loss_of(outputs, targets, function)
            phase(step, "eval", None)
    phase.end()
    del outputs, loss
