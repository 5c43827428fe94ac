"""Captures models with this interpreter's torch and prints the estimates as one line of JSON.

    PYTHONPATH=python:python/tests python3 python/tests/estimates.py

Used by `versions`, which compares several versions. Models of transformers and torchvision are those of `zoo`, if both are
installed.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Dict, List

import vramfit

NAMES = (
    "mlp", "lstm", "gru", "encoder", "bert", "bert-padded", "roberta", "gpt2", "gpt2-eager", "llama", "lora", "t5", "hf-vit", "vit", "swin",
    "resnet18", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "fcn",
)
SETTINGS: List[Dict[str, Any]] = [{}, {"amp": "bf16"}, {"dtype": "bf16", "optimizer": "sgd"}, {"mode": "eval"}]
ONLY = {("as-built", "train"), ("amp-bf16", "train"), ("bf16", "train"), ("as-built", "eval")}


def main() -> None:
    from zoo import CASES

    found: Dict[str, List[List[int]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            case = CASES[name]
            path = os.path.join(folder, f"{name}.vramfit")
            vramfit.capture(case.build(), case.inputs, path, targets=case.targets, loss=case.loss, sizes=case.sizes, only=ONLY)
            answers = [vramfit.estimate(path, **settings) for settings in SETTINGS]
            found[name] = [[answer.peak_allocated, answer.peak_reserved, answer.device_used] for answer in answers]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
