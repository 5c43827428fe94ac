"""Optimizer steps: CPU time per weight tensor, GPU time per element."""

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))

from case_optimizers import BITSANDBYTES, CpuOptimizers, make_optimizer  # noqa: E402
from settings import IMPLEMENTATIONS, OPTIMIZERS  # noqa: E402

NO_FUSED = ("rmsprop", "adadelta", "adamax", "nadam", "radam", "adafactor")


def weights(clock, count, shape):
    found = [torch.randn(*shape, device=clock.device).requires_grad_() for _ in range(count)]
    for weight in found:
        weight.grad = torch.randn_like(weight)
    return found


def rows(clock, is_tiny, is_late):
    """{optimizer, implementation, weights, elements, cpu, gpu}; `elements` of all weights together."""
    found = []
    few, many = (20, 200)
    for name, (kind, arguments) in OPTIMIZERS.items():
        for implementation in ("foreach", "fused", "for-loop"):
            if is_late() or (implementation == "fused" and name in NO_FUSED):
                continue
            if implementation == "foreach" and name == "adafactor":
                continue
            chosen = {**arguments, **IMPLEMENTATIONS[implementation]}
            for count, shape in ((few, (16, 16)), (many, (16, 16)), (24, (2048, 1024)), (6, (4096, 4096))):
                if is_tiny and shape[0] > 16:
                    continue
                is_large = shape[0] > 16
                row = {"optimizer": name, "implementation": implementation, "weights": count}
                row["elements"] = count * shape[0] * shape[1]
                try:
                    optimizer = kind(weights(clock, count, shape), **chosen)
                    optimizer.step()
                    if is_large:
                        row["gpu"] = clock.gpu(optimizer.step)
                    else:
                        row["cpu"] = clock.cpu(optimizer.step, 2 if count == many else 5)
                        row["gpu"] = clock.gpu(optimizer.step) if count == few else None
                        row["zero_grad"] = clock.cpu(optimizer.zero_grad, 20)
                except Exception as error:
                    row["error"] = f"{type(error).__name__}: {error}"[:200]
                found.append(row)
    for count, shape in ((few, (16, 16)), (many, (16, 16)), (24, (2048, 1024))):
        given = weights(clock, count, shape) if not (is_tiny and shape[0] > 16) else []
        if given:
            clip = lambda: torch.nn.utils.clip_grad_norm_(given, 1.0)  # noqa: E731
            row = {"optimizer": "clip", "weights": count, "elements": count * shape[0] * shape[1]}
            row["cpu" if shape[0] == 16 else "gpu"] = clock.cpu(clip, 5) if shape[0] == 16 else clock.gpu(clip)
            found.append(row)
    return found + scaled(clock, is_tiny)


def newer_rows(clock, is_tiny, is_late):
    """The same of bitsandbytes, Muon and transformers' Adafactor, which go weight by weight."""
    found = []
    for name in (*BITSANDBYTES, "muon", "adafactor-hf"):
        for count, shape in ((20, (16, 16)), (200, (16, 16)), (24, (2048, 1024)), (6, (4096, 4096))):
            if is_late() or (is_tiny and shape[0] > 16):
                continue
            row = {"optimizer": name, "implementation": "for-loop", "weights": count}
            row["elements"] = count * shape[0] * shape[1]
            try:
                given = weights(clock, count, shape)
                optimizer = torch.optim.Muon(given) if name == "muon" else make_optimizer(name, "default", given)
                optimizer.step()
                if shape[0] > 16:
                    row["gpu"] = clock.gpu(optimizer.step)
                else:
                    row["cpu"] = clock.cpu(optimizer.step, 2)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {error}"[:200]
            found.append(row)
    return found + cpu_rows(clock, is_tiny, is_late)


def cpu_rows(clock, is_tiny, is_late):
    """Optimizers on the CPU, with all its cores: gradients to pinned memory, the update, weights back."""
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    for name in OPTIMIZERS:
        for count, shape in ((20, (16, 16)), (200, (16, 16)), (6, (4096, 4096))):
            if is_late() or (is_tiny and shape[0] > 16):
                continue
            row = {"optimizer": name, "implementation": "cpu", "weights": count}
            row["elements"] = count * shape[0] * shape[1]
            case = SimpleNamespace(optimizer=name, optimizer_impl="default", step_in_backward=False)
            model = torch.nn.ParameterList(weights(clock, count, shape))
            (optimizer,) = CpuOptimizers(case, model).in_loop()
            row["cpu"] = clock.cpu(optimizer.step, 2) if shape[0] == 16 else once(clock, optimizer.step)
            found.append(row)
    torch.set_num_threads(threads)
    return found


def once(clock, call):
    """Microseconds of the second call: one takes long."""
    call()
    clock.synchronize()
    began = time.perf_counter()
    call()
    clock.synchronize()
    return (time.perf_counter() - began) * 1e6


def scaled(clock, is_tiny):
    """A GradScaler's part of a step: it looks at every gradient, and Python waits for what it found."""
    found = []
    for count, shape in ((20, (16, 16)), (200, (16, 16)), (24, (2048, 1024))):
        if clock.device != "cuda" or (is_tiny and shape[0] > 16):
            continue
        given = weights(clock, count, shape)
        optimizer = torch.optim.SGD(given, lr=1e-3)
        scaler = torch.amp.GradScaler("cuda", init_scale=128)
        scaler.scale(torch.ones((), device="cuda"))

        def step():
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        found.append(
            {
                "optimizer": "scaler",
                "weights": count,
                "elements": count * shape[0] * shape[1],
                "whole": clock.cpu(step, 5),
                "without": clock.cpu(optimizer.step, 5),
            }
        )
    return found
