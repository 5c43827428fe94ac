"""Captures the models of the cases, without a GPU: python validation/capture.py [NAME…], into validation/captures/.

A case's batch and sequence are sizes of the capture, so each model is captured once, at the sizes of its first case.
Needs torch, transformers and torchvision.
"""

import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "validation")]

import vramfit  # noqa: E402
from cases import CASES, MODELS, loss_function, make_inputs  # noqa: E402
from one_by_one import make_all  # noqa: E402


def first_case(model):
    """As the model is built: a capture casts inputs to each precision itself."""
    case = next(case for case in CASES.values() if case.model == model)
    return case if case.dtype == "as-built" else replace(case, dtype="fp32")


def precisions(name):
    """What its cases use; all for most models. Those with adapters are fixtures of these cases only."""
    if MODELS[name].part != 3:
        return None
    cases = [case for case in CASES.values() if case.model == name]
    return {(f"amp-{case.amp}" if case.amp != "none" else case.dtype, "train") for case in cases}


def capture(name, folder):
    model = MODELS[name]
    case = first_case(name)
    inputs, targets = make_inputs(model, case)
    path = folder / f"{name}.vramfit"
    sizes = {name: tensor.shape for name, tensor in model.inputs.items()}
    if model.targets:
        sizes["targets"] = model.targets.shape
    vramfit.capture(
        model.build("meta"), inputs, path, targets=targets, loss=loss_function(model), sizes=sizes, only=precisions(name)
    )
    return path.stat().st_size


def main():
    folder = ROOT / "validation" / "captures"
    folder.mkdir(exist_ok=True)
    make_all(sys.argv[1:] or MODELS, lambda name: capture(name, folder))


if __name__ == "__main__":
    main()
