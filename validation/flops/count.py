"""Counts forward and backward FLOPs with torch.utils.flop_counter.FlopCounterMode, for models on which vramfit must count the same.

    python3 validation/flops/count.py --out validation/flops/expected.json
    python3 validation/flops/count.py --device cuda --out cuda.json

On the CPU attention runs as plain operators, because the counter has no formula for its CPU kernel; on a GPU, as PyTorch chooses.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

SIZES = {
    "mlp-odd": (8, None),
    "residual": (8, None),
    "encoder-post": (2, 32),
    "bert-base": (2, 64),
    "gpt2": (2, 64),
    "llama-small": (2, 64),
    "t5": (2, 32),
    "resnet18": (2, None),
    "resnet50": (2, None),
    "mobilenet-v3": (2, None),
    "convnext-tiny": (2, None),
    "vit-b-16": (2, None),
    "unet": (2, None),
}


def count(name, device):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from cases import MODELS, Case, loss_function, make_inputs

    batch, seq = SIZES[name]
    model_entry = MODELS[name]
    model = model_entry.build("cpu").to(device).train()
    inputs, targets = make_inputs(model_entry, Case(name, name, batch=batch, seq=seq))
    inputs = {key: value.to(device) for key, value in inputs.items()}
    targets = targets.to(device) if targets is not None else None
    function = loss_function(model_entry)
    attention = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else contextlib.nullcontext()
    with attention:
        with FlopCounterMode(display=False) as forward:
            outputs = model(**inputs)
            loss = function(outputs, targets) if function else outputs.loss
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    torch.manual_seed(0)
    return {
        "batch": batch,
        "seq": seq,
        "forward": forward.get_total_flops(),
        "backward": backward.get_total_flops(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", help="models with commas between")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    import torch

    names = given.only.split(",") if given.only else list(SIZES)
    models = {}
    for name in names:
        models[name] = count(name, given.device)
        print(name, models[name], file=sys.stderr, flush=True)
    document = {"torch": torch.__version__, "attention": "math" if given.device == "cpu" else "fused", "models": models}
    text = json.dumps(document, indent=1) + "\n"
    if given.out:
        given.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
