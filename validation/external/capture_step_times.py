"""Captures the models of step_times.json, without a GPU: python validation/external/capture_step_times.py [NAME…].

Needs torch, transformers and timm. Attention is computed step by step, as the libraries of the published runs did.
"""

import json
import os
import sys
from pathlib import Path

os.environ["TIMM_FUSED_ATTN"] = "0"
FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parents[1] / "python"), str(FOLDER.parent)]

import torch  # noqa: E402
import vramfit  # noqa: E402
from one_by_one import make_all  # noqa: E402

HALF = {("amp-fp16", "train")}
BOTH = {("as-built", "train"), ("amp-fp16", "train")}
SINGLE = ("resnet50", "efficientnet_b0", "resnext101_32x4d")
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
BERT = {"bert-base-qa": {}, "bert-large-qa": LARGE}


def capture_bert(name, path):
    from transformers import BertConfig, BertForQuestionAnswering

    config = BertConfig(**BERT[name], attn_implementation="eager")
    with torch.device("meta"):
        model = BertForQuestionAnswering(config).train()
    ids = torch.zeros(2, 384, dtype=torch.long)
    inputs = {"input_ids": ids, "attention_mask": ids + 1, "token_type_ids": ids}
    inputs.update(start_positions=ids[:, 0], end_positions=ids[:, 0])
    sizes = {key: ("batch", "seq") if value.dim() == 2 else ("batch",) for key, value in inputs.items()}
    vramfit.capture(model, inputs, path, sizes=sizes, only=BOTH)


def capture_timm(name, path):
    import timm

    model_name, layout, side = name.split("-")
    with torch.device("meta"):
        model = timm.create_model(model_name).train()
    x = torch.randn(2, 3, int(side), int(side))
    if layout == "nhwc":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    targets = torch.zeros(2, dtype=torch.long)
    loss = torch.nn.functional.cross_entropy
    sizes = {"x": ("batch", 3, int(side), int(side)), "targets": ("batch",)}
    only = BOTH if model_name in SINGLE and layout == "nchw" else HALF
    vramfit.capture(model, x, path, targets=targets, loss=loss, sizes=sizes, only=only)


def capture(name):
    path = FOLDER / "captures" / f"{name}.vramfit"
    (capture_bert if name in BERT else capture_timm)(name, path)
    return path.stat().st_size


def main():
    rows = json.loads((FOLDER / "step_times.json").read_text())["rows"]
    make_all(sys.argv[1:] or sorted({row["model"] for row in rows}), capture)


if __name__ == "__main__":
    main()
