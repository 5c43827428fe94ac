"""Captures the models of the runs with the library versions they were run with; no GPU: python capture.py NAME…

Names end in `*` for all that begin so. Use an environment with the versions that README.md names. Writes captures/NAME.vramfit.
"""

import sys
from fnmatch import fnmatch
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE.parent)]

import litgpt_models  # noqa: E402
import models  # noqa: E402
import small_models  # noqa: E402
import vramfit  # noqa: E402
from one_by_one import make_all  # noqa: E402

MODELS = {**models.MODELS, **litgpt_models.MODELS, **small_models.MODELS}
# The runs train in the precision that the model was built with.
RECORDED = {("as-built", "train")}

SIZES = {"batch": 4, "seq": 128}


def tensor(described):
    dtype, shape = described
    sizes = [SIZES.get(size, size) for size in shape]
    return torch.ones(sizes, dtype=dtype) if dtype == torch.int64 else torch.zeros(sizes, dtype=dtype)


def capture(name):
    build, inputs, targets = MODELS[name]
    path = HERE / "captures" / f"{name.split('/')[-1]}.vramfit"
    path.parent.mkdir(exist_ok=True)
    shapes = {input: shape for input, (_, shape) in inputs.items()}
    options = {}
    if targets:
        shapes["targets"] = targets[1]
        options = {"targets": tensor(targets), "loss": torch.nn.CrossEntropyLoss()}
    vramfit.capture(
        build().train(), {input: tensor(described) for input, described in inputs.items()}, path, sizes=shapes, only=RECORDED, **options
    )
    return path.stat().st_size


def main():
    make_all([name for name in MODELS if any(fnmatch(name, pattern) for pattern in sys.argv[1:])], capture)


if __name__ == "__main__":
    main()
