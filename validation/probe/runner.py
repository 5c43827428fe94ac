"""Runs one probe in its modes.

leaf: the inputs are leaves, and the caller holds the gradient given to backward.
chained: as in the middle of a network. Inputs are x * 1, the output goes through * 1, and the references
to both are dropped before backward: what stays is what autograd saved.
no_grad: only forward.
"""

import contextlib
import gc

import torch
from recorder import storage_address
from specs import DTYPES


def autocast(dtype, device):
    if not dtype.startswith("amp-"):
        return contextlib.nullcontext()
    return torch.autocast(device, dtype=DTYPES[dtype.removeprefix("amp-")])


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def differentiable(tensors):
    return [tensor for tensor in tensors if tensor.requires_grad]


def describe(tensor):
    return [list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch.")]


def make_arguments(probe, mode, device):
    """The arguments, the leaves behind them, and names for their addresses."""
    arguments, leaves, known = [], [], {}
    for position, argument in enumerate(probe.arguments):
        tensor = argument.make(probe.base_dtype, device)
        if argument.role != "constant":
            leaves.append((position, tensor.requires_grad_()))
        if argument.role == "activation" and mode == "chained":
            known[storage_address(tensor)] = f"leaf{position}"
            tensor = tensor * 1
        known[storage_address(tensor)] = f"in{position}"
        arguments.append(tensor)
    return arguments, leaves, known


def label_all(recorder, prefix, tensors):
    for position, tensor in enumerate(tensors):
        recorder.label(f"{prefix}{position}", tensor)


def label_gradients(recorder, prefix, leaves):
    for position, leaf in leaves:
        recorder.label(f"{prefix}{position}.grad", leaf.grad)


def run_no_grad(probe, device, recorder):
    arguments, _, known = make_arguments(probe, "no_grad", device)
    recorder.start(known)
    with torch.no_grad(), autocast(probe.dtype, device):
        outputs = probe.function(*arguments)
    recorder.mark("forward")
    label_all(recorder, "out", tensors_of(outputs))
    return recorder.finish()


def run_leaf(probe, device, recorder):
    details = {}
    arguments, leaves, known = make_arguments(probe, "leaf", device)
    recorder.start(known)
    with autocast(probe.dtype, device):
        outputs = probe.function(*arguments)
    recorder.mark("forward")
    everything = tensors_of(outputs)
    label_all(recorder, "out", everything)
    details["outputs"] = [describe(tensor) for tensor in everything]
    outputs = differentiable(everything)
    if outputs:
        details["grad_fn"] = [tensor.grad_fn.name() if tensor.grad_fn else None for tensor in outputs]
        gradients = [torch.ones_like(tensor) for tensor in outputs]
        recorder.mark("grad_outputs")
        label_all(recorder, "grad_out", gradients)
        torch.autograd.backward(outputs, gradients)
        recorder.mark("backward")
        label_gradients(recorder, "in", leaves)
        details["gradients"] = [describe(leaf.grad) for _, leaf in leaves if leaf.grad is not None]
    return {**recorder.finish(), **details}


def run_chained(probe, device, recorder):
    arguments, leaves, known = make_arguments(probe, "chained", device)
    recorder.start(known)
    with autocast(probe.dtype, device):
        outputs = tensors_of(probe.function(*arguments))
    recorder.mark("forward")
    label_all(recorder, "out", outputs)
    arguments.clear()
    recorder.mark("drop_inputs")
    ends = [tensor * 1 for tensor in differentiable(outputs)]
    recorder.mark("chain")
    label_all(recorder, "end", ends)
    outputs.clear()
    recorder.mark("drop_outputs")
    if ends:
        gradients = [torch.ones_like(tensor) for tensor in ends]
        recorder.mark("grad_outputs")
        label_all(recorder, "grad_end", gradients)
        torch.autograd.backward(ends, gradients)
        recorder.mark("backward")
        label_gradients(recorder, "leaf", leaves)
    parts = recorder.finish()
    return {**parts, "saved": still_held(parts, known.values())}


def still_held(parts, names):
    """What is alive after drop_outputs: inputs by name, allocations of the forward pass by id.

    Parameters are always held, by the probe itself.
    """
    held = {name for name in names if not name.startswith("leaf")}
    for part in ("forward", "drop_inputs", "chain", "drop_outputs"):
        for event in parts.get(part, []):
            if event[0] == "-":
                held.discard(event[1])
            elif part != "chain":
                held.add(event[2])
    return sorted(held, key=str)


MODES = {"leaf": run_leaf, "chained": run_chained, "no_grad": run_no_grad}


def run_probe(probe, device, recorder):
    """Each mode twice: the first call warms up handles and caches, and is not recorded."""
    result = {
        "op": probe.operator,
        "dtype": probe.dtype,
        "size": probe.size,
        "arguments": [argument.describe(probe.base_dtype) for argument in probe.arguments],
    }
    silent = type(recorder)("cpu")
    prepare = getattr(probe.function, "prepare", lambda: None)
    for mode in probe.modes:
        before = allocated(device)
        try:
            MODES[mode](probe, device, silent)
            prepare()
            kept = allocated(device) - before
            if kept:
                result[f"kept_by_first_call.{mode}"] = kept
            result[mode] = MODES[mode](probe, device, recorder)
        except Exception as error:
            result[mode] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
            del error
            gc.collect()
    return result


def allocated(device):
    return torch.cuda.memory_allocated() if device == "cuda" else 0
