"""Trains models of the sweep on a GPU for three steps each and records both peaks. One line of JSON per case.

    python validation/sweep/measure_models.py --cases cases.jsonl --out measured.jsonl [--traces folder]

Each case has a fresh process. The loop is that of ../measure/README.md: weights made on the CPU and moved, inputs kept on the GPU.
``draw.py`` draws the cases, ``compare.py`` holds estimates against what was measured. --traces writes the allocator's events of each
case too, for ``vramfit-validate sweep-trace``.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, Optional

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "measure"), str(FOLDER.parents[1] / "python")]

import fork_pool  # noqa: E402

fork_pool.prepare_environment()

OPTIMIZERS = {"adamw": "AdamW", "adam": "Adam", "sgd": "SGD"}


def moved(value: Any, device: str) -> Any:
    """The structure with its tensors on the device."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: moved(item, device) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    return value


def examples_of(case: Dict[str, Any]) -> Any:
    """The examples of a case's model, at the case's batch."""
    models = importlib.import_module(f"libraries.{case['library']}_models")
    models.BATCH = case["batch"]
    return models.examples(case["model"])


def measure(case: Dict[str, Any], device: str = "cuda", traces: Optional[str] = None) -> Dict[str, Any]:
    """The first example of the model that trains, with both peaks."""
    import torch

    torch.set_num_threads(2)
    torch.manual_seed(0)
    problems = []
    for index, example in enumerate(examples_of(case)):
        if index == 3:
            break
        try:
            return {"example": index, **train(case, example, device, traces)}
        except Exception as problem:  # noqa: BLE001 - the next example may be the right one
            problems.append(f"{type(problem).__name__}: {problem}".partition("\n")[0][:300])
            if device == "cuda" and torch.cuda.is_initialized() and torch.cuda.memory_reserved():
                break  # what it left behind would be counted
    return {"error": "; ".join(problems) or "no example"}


def divided(loss: Any, accumulate: int) -> Any:
    """The loss of a micro-batch; as in the protocol, the last one is held until this one is divided."""
    return loss / accumulate if accumulate > 1 else loss


def train(case: Dict[str, Any], example: Any, device: str, traces: Optional[str] = None) -> Dict[str, Any]:
    """Three steps of training."""
    import torch

    model = example.build()
    inputs = example.inputs(model)
    tracer = None
    if traces and device == "cuda":
        from trace_events import Tracer

        torch.cuda.init()
        tracer = Tracer()
    model = model.to(device).train()
    inputs = moved(inputs, device)
    optimizer = getattr(torch.optim, OPTIMIZERS[case["optimizer"]])(model.parameters(), lr=1e-4)
    parameters = [weight for group in optimizer.param_groups for weight in group["params"]]
    for step in range(3):
        optimizer.zero_grad()
        for micro in range(case["accumulate"]):
            with torch.autocast("cuda", torch.bfloat16, enabled=case["amp"] == "bf16"):
                outputs = model(**inputs) if isinstance(inputs, dict) else model(*inputs) if isinstance(inputs, tuple) else model(inputs)
                loss = divided(example.loss(outputs, None) if example.loss else outputs.loss, case["accumulate"])
            loss.backward()
        if case["clip_grad"]:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    if device != "cuda":
        return {}
    torch.cuda.synchronize()
    if tracer and traces:
        with gzip.open(Path(traces) / f"{case['name'].replace('/', '.')}.json.gz", "wt") as stream:
            json.dump(tracer.finish(), stream)
    return {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved()}


def main() -> None:
    """Measures all cases that have no line yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=1e6, help="no case is started after that")
    parser.add_argument("--timeout", type=float, default=100.0, help="seconds for each case")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--traces", type=Path, help="a folder for the allocator's events")
    given = parser.parse_args()
    if given.traces:
        given.traces.mkdir(parents=True, exist_ok=True)
    cases = {case["name"]: case for case in map(json.loads, given.cases.read_text().splitlines())}
    import torch

    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    for library in {case["library"] for case in cases.values()}:
        importlib.import_module(f"libraries.{library}_models")  # before the processes are forked
    jobs = [{"name": name, "call": "measure_models:measure", "arguments": {"case": case, "device": given.device, "traces": given.traces and str(given.traces)}} for name, case in cases.items()]

    def report(name: str, result: Dict[str, Any], done: int, total: int) -> None:
        with given.out.open("a") as stream:
            stream.write(json.dumps({**cases[name], **result}) + "\n")
        print(f"{done}/{total} {name}: {result.get('error', result.get('peak_allocated'))}", file=sys.stderr, flush=True)

    fork_pool.run(jobs, given.jobs, given.timeout, given.device, report, time.time() + given.seconds)


if __name__ == "__main__":
    main()
