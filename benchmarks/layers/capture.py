"""Captures BERT with 12, 48 and 192 layers, to show that an estimate's cost grows with the number of operators.

    python benchmarks/layers/capture.py FOLDER
    VRAMFIT_LAYERS=FOLDER cargo bench -p vramfit-training layers

Needs torch and transformers; no weights are made.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import transformers  # noqa: E402
import vramfit  # noqa: E402

LAYERS = (12, 48, 192)


def capture(layers, folder):
    config = transformers.BertConfig(num_hidden_layers=layers)
    with torch.device("meta"):
        model = transformers.BertForSequenceClassification(config)
    inputs = {
        "input_ids": torch.randint(0, config.vocab_size, (4, 32)),
        "labels": torch.randint(0, config.num_labels, (4,)),
    }
    path = folder / f"bert-{layers}.vramfit"
    vramfit.capture(model.train(), inputs, path)
    return path


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for layers in LAYERS:
        begun = time.perf_counter()
        path = capture(layers, folder)
        print(f"{path}: {path.stat().st_size} bytes, {time.perf_counter() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
