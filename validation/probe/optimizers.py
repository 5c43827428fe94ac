"""Allocator events of optimizers: constructor, two steps, zero_grad; clipping; GradScaler."""

import gc

import torch
from case_optimizers import BITSANDBYTES, make_optimizer
from recorder import Recorder, storage_address

LISTS = {
    "three": [(1000, 771), (771,), (33, 5)],
    "forty small": [(17 + number,) for number in range(40)],
    "twelve large": [(771, 515)] * 12,
    "two kinds": [(129, 77)] * 4,  # every other one in bf16
    "scalar and empty grad": [(), (7, 9)],
    "matrices": [(1000, 771), (771, 1000), (64, 64), (33, 5), (5, 4100)],
    "around 4096": [(4095,), (4096,), (64, 65), (3, 3, 5, 500)],
    "around 100000": [(99_999,), (100_000,), (331, 777)],
}
# Lists that older recordings have: all optimizers of torch.optim but Muon.
OLDER_LISTS = ("three", "forty small", "twelve large", "two kinds", "scalar and empty grad")
OPTIMIZERS = {
    "SGD": {},
    "SGD momentum": {"momentum": 0.9},
    "SGD nesterov": {"momentum": 0.9, "nesterov": True},
    "SGD decay": {"weight_decay": 0.01},
    "SGD momentum decay": {"momentum": 0.9, "weight_decay": 0.01},
    "Adam": {},
    "Adam decay": {"weight_decay": 0.01},
    "Adam amsgrad": {"amsgrad": True},
    "AdamW": {},
    "AdamW no decay": {"weight_decay": 0.0},
    "AdamW amsgrad": {"amsgrad": True},
    "RMSprop": {},
    "RMSprop centered": {"centered": True},
    "RMSprop momentum": {"momentum": 0.9},
    "RMSprop decay": {"weight_decay": 0.01},
    "Adagrad": {},
    "Adagrad decay": {"weight_decay": 0.01},
    "Adadelta": {},
    "Adadelta decay": {"weight_decay": 0.01},
    "Adamax": {},
    "Adamax decay": {"weight_decay": 0.01},
    "NAdam": {},
    "NAdam decay": {"weight_decay": 0.01},
    "RAdam": {},
    "RAdam decay": {"weight_decay": 0.01},
    "Adafactor": {},
    "ASGD": {},
    "Rprop": {},
}
IMPLEMENTATIONS = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "for-loop": {"foreach": False},
}


def make_parameters(name, dtype, device):
    parameters = []
    for position, shape in enumerate(LISTS[name]):
        kind = torch.bfloat16 if name == "two kinds" and position % 2 else dtype
        parameters.append(torch.nn.Parameter(torch.rand(shape, device=device).to(kind)))
    return parameters


def give_gradients(parameters):
    for parameter in parameters:
        parameter.grad = torch.rand_like(parameter)


def names_of(parameters):
    known = {}
    for position, parameter in enumerate(parameters):
        known[storage_address(parameter)] = f"p{position}"
        if parameter.grad is not None:
            known[storage_address(parameter.grad)] = f"g{position}"
    return known


def label_state(recorder, optimizer, parameters):
    for position, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor) and value.device == parameter.device:
                recorder.label(f"p{position}.{key}", value)


def torch_optimizer(name, options, implementation):
    kind = getattr(torch.optim, name.split()[0])
    return lambda parameters: kind(parameters, **options, **IMPLEMENTATIONS[implementation])


def newer_optimizer(name):
    if name == "muon":
        return torch.optim.Muon
    return lambda parameters: make_optimizer(name, "default", parameters)


def step_events(make, list_name, dtype, device, recorder):
    parameters = make_parameters(list_name, dtype, device)
    give_gradients(parameters)
    recorder.start(names_of(parameters))
    optimizer = make(parameters)
    recorder.mark("constructor")
    for step in (1, 2, 3):
        optimizer.step()
        recorder.mark(f"step {step}")
    optimizer.zero_grad(set_to_none=False)
    recorder.mark("zero_grad to zeros")
    optimizer.zero_grad()
    recorder.mark("zero_grad to none")
    label_state(recorder, optimizer, parameters)
    return recorder.finish()


def clip_events(foreach, list_name, dtype, device, recorder):
    parameters = make_parameters(list_name, dtype, device)
    give_gradients(parameters)
    recorder.start(names_of(parameters))
    torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
    recorder.mark("clip, result dropped")
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
    recorder.mark("clip, result held")
    del norm
    recorder.mark("result dropped")
    torch.nn.utils.clip_grad_value_(parameters, 1.0, foreach=foreach)
    recorder.mark("clip value")
    return recorder.finish()


def scaler_events(implementation, unscale, list_name, device, recorder):
    parameters = make_parameters(list_name, torch.float32, device)
    give_gradients(parameters)
    optimizer = torch.optim.AdamW(parameters, **IMPLEMENTATIONS[implementation])
    scaler = torch.amp.GradScaler(device, init_scale=128)
    loss = torch.rand((), device=device)
    recorder.start(names_of(parameters))
    for step in (1, 2):
        scaled = scaler.scale(loss)
        recorder.mark(f"scale {step}")
        if unscale:
            scaler.unscale_(optimizer)
            recorder.mark(f"unscale {step}")
        scaler.step(optimizer)
        recorder.mark(f"step {step}")
        scaler.update()
        recorder.mark(f"update {step}")
    del scaled
    label_state(recorder, optimizer, parameters)
    return recorder.finish()


def jobs(device, recorder):
    """Name and function of every probe here."""
    for name, options in OPTIMIZERS.items():
        for implementation in IMPLEMENTATIONS:
            for list_name in OLDER_LISTS:
                for dtype in (torch.float32, torch.bfloat16):
                    if dtype == torch.bfloat16 and list_name != "three":
                        continue
                    label = f"{name}|{implementation}|{list_name}|{str(dtype).removeprefix('torch.')}"
                    given = (torch_optimizer(name, options, implementation), list_name, dtype, device)
                    yield label, lambda r, given=given: step_events(*given, r)
    for list_name in OLDER_LISTS:
        for foreach in (None, True, False):
            for dtype in (torch.float32, torch.bfloat16):
                label = f"clip|foreach {foreach}|{list_name}|{str(dtype).removeprefix('torch.')}"
                given = (foreach, list_name, dtype, device)
                yield label, lambda r, given=given: clip_events(*given, r)
        for implementation in IMPLEMENTATIONS:
            for unscale in (False, True):
                label = f"scaler|{implementation}|{list_name}|{'unscale' if unscale else 'plain'}"
                given = (implementation, unscale, list_name, device)
                yield label, lambda r, given=given: scaler_events(*given, r)


def newer_jobs(device):
    """Those of bitsandbytes, Muon and transformers' Adafactor."""
    for name in (*BITSANDBYTES, "muon", "adafactor-hf"):
        for list_name in LISTS:
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                label = f"{name}|default|{list_name}|{str(dtype).removeprefix('torch.')}"
                given = (newer_optimizer(name), list_name, dtype, device)
                yield label, lambda r, given=given: step_events(*given, r)


def run(device, newer=False):
    recorder, silent, results = Recorder(device), Recorder("cpu"), {}
    for label, work in newer_jobs(device) if newer else jobs(device, recorder):
        try:
            work(silent)
            results[f"optimizer|{label}"] = work(recorder)
        except Exception as error:
            results[f"optimizer|{label}"] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
            del error
            gc.collect()
    return results
