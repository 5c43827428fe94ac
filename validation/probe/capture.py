"""Captures every probe's calls without a GPU: python validation/probe/capture.py, into measured/probe-captures.jsonl.gz.

`--families uncommon --out validation/measured/probe-captures-uncommon.jsonl.gz` makes those of probe-uncommon.json.gz, and `rare` likewise.

Each line is one probe, a capture with three variants: `train` is the probe's mode leaf, `eval-grad` chained, `eval` no_grad. The
module below calls the operator as runner.py does on the GPU, so that simulated events can be compared with recorded ones. Needs
torch, and torchvision for convolutions and recurrent layers.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

import torch  # noqa: E402
from probe import FAMILIES, probes_of  # noqa: E402
from runner import autocast, differentiable, tensors_of  # noqa: E402
from vramfit import CaptureError  # noqa: E402
from vramfit.align import Alignment  # noqa: E402
from vramfit.capturing import _head  # noqa: E402
from vramfit.file_format import Document, dumps  # noqa: E402
from vramfit.inputs import Inputs  # noqa: E402
from vramfit.recording import PRECISIONS, Recorded, step  # noqa: E402
from vramfit.session import Session  # noqa: E402
from vramfit.symbols import Expressions, Plan  # noqa: E402

MODES = {"leaf": "train", "chained": "eval-grad", "no_grad": "eval"}


class Probed(torch.nn.Module):
    """A probe as a module of its arguments."""

    def __init__(self, probe):
        super().__init__()
        self.probe = probe
        self.mode = "leaf"
        if hasattr(probe.function, "module"):
            self.module = probe.function.module("cpu", probe.base_dtype)

    def forward(self, *leaves):
        # The probes ran their modules in training, without gradients too.
        for module in self.children():
            module.train()
        if self.mode != "chained":
            with autocast(self.probe.dtype, "cuda"):
                return self.probe.function(*leaves)
        roles = [argument.role for argument in self.probe.arguments]
        arguments = [leaf * 1 if role == "activation" else leaf for leaf, role in zip(leaves, roles)]
        with autocast(self.probe.dtype, "cuda"):
            outputs = tensors_of(self.probe.function(*arguments))
        arguments.clear()
        ends = [tensor * 1 for tensor in differentiable(outputs)]
        outputs.clear()
        return ends


def examples_of(probe):
    tensors = []
    for argument in probe.arguments:
        is_float = (argument.dtype or probe.base_dtype).is_floating_point
        tensor = argument.make(probe.base_dtype, "meta" if is_float else "cpu")
        tensors.append(tensor.requires_grad_() if argument.role != "constant" else tensor)
    return tuple(tensors)


def captured(probe):
    """The capture of a probe as a dict, or the error of the mode that could not be recorded."""
    model, precision = Probed(probe), PRECISIONS[0]
    examples = examples_of(probe)
    session = Session(step.__code__)
    inputs = Inputs(model, examples, None, {f"input{at}": tensor.shape for at, tensor in enumerate(examples)})
    plan = Plan(inputs.examples, [], 0)
    alignment, document, errors = Alignment(session, Expressions(plan)), Document({}), {}
    with Recorded(model, inputs, None, session) as recorded:
        for mode in probe.modes:
            model.mode = mode
            try:
                recording = recorded.run(precision, MODES[mode], plan.points[0])
            except CaptureError as error:
                errors[mode] = str(error).splitlines()[0]
                continue
            document.add(precision.name, MODES[mode], None, alignment.merge([recording]), recording.causes)
        document.head.update(_head(recorded, session, plan, []))
    return {**document.contents(), "errors": errors} if errors else document.contents()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "validation/measured/probe-captures.jsonl.gz")
    parser.add_argument("--families", default="", help="with commas between")
    given = parser.parse_args()
    chosen = [name for name in given.families.split(",") if name]
    torch.set_num_threads(1)
    lines, failed = [], 0
    for family in FAMILIES:
        if family.startswith("attention") and family != "attention default":
            continue  # the backend is chosen by the simulation
        if chosen and family.split()[0] not in chosen:
            continue
        for probe in probes_of(family):
            try:
                contents = captured(probe)
            except Exception as error:
                failed += 1
                print(f"{probe.key}: {type(error).__name__}: {error}".splitlines()[0], flush=True)
                continue
            for mode, error in contents.pop("errors", {}).items():
                failed += 1
                print(f"{probe.key} {mode}: {error}", flush=True)
            if contents["variants"]:
                lines.append(dumps({"key": probe.key, "capture": contents}))
        print(f"{family}: {len(lines)} captures in all", flush=True)
    packed = gzip.compress("\n".join(lines).encode("ascii"), 9, mtime=0)
    given.out.write_bytes(packed)
    print(f"{len(lines)} captures, {failed} failures, {len(packed)} bytes")


if __name__ == "__main__":
    main()
