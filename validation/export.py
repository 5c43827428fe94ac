"""Exports the models of the cases with torch.export: python validation/export.py [--device cpu] [NAME…], into
validation/archives/.

Each model is exported once, in training mode, at the sizes of its first case, with dynamic batch and sequence. NAME-LENGTH is a
model at the sizes of its case of that length, since torch.export fixes the length of inputs of recurrent layers. The archives are
what torch.export.save writes, with three changes: the weights are removed, the rest is compressed, and paths are shortened to
site-packages/…, cases/… or export.py. A model that does not return its loss is exported inside a module that does. On the meta
device an export needs no weights, but its example has no values, so it does not show whether a mask masks anything. Needs torch,
transformers and torchvision.
"""

import argparse
import io
import re
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "validation")]

from cases import CASES, MODELS, loss_function, make_inputs  # noqa: E402
from one_by_one import make_all  # noqa: E402

KEPT = re.compile(
    r"/(models/.*\.json|data/(weights|constants)/.*config\.json|data/sample_inputs/.*\.pt|"
    r"archive_format|archive_version|byteorder|\.data/version)$"
)
PATH = re.compile(r"(?<![\w.])/[^\"\\,;]*?/(site-packages|cases|python3\.\d+)/")
NO_TIME = (1980, 1, 1, 0, 0, 0)


def register_caches():
    """Tells torch.export what the caches hold that transformers' models return."""
    from torch.utils import _pytree
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache

    def refuse(parts, context):
        raise NotImplementedError("these caches are only taken apart")

    def register(kind, parts):
        name = f"transformers.cache_utils.{kind.__name__}"
        _pytree.register_pytree_node(kind, lambda cache: (parts(cache), None), refuse, serialized_type_name=name)

    register(DynamicCache, lambda cache: [[layer.keys, layer.values] for layer in cache.layers])
    register(EncoderDecoderCache, lambda cache: [cache.self_attention_cache, cache.cross_attention_cache])


class TrainingStep(nn.Module):
    """A model with its loss, as the script of a case calls them."""

    def __init__(self, model, loss):
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, inputs, targets):
        outputs = self.model(**inputs)
        return self.loss(outputs, targets), outputs


def dynamic(tensor):
    """The batch and the sequence are open; an exporter that finds them fixed may fix them."""
    return {dim: Dim.AUTO for dim, size in enumerate(tensor.shape) if isinstance(size, str)}


def model_and_case(name):
    """The model of this name and its first case, or its case of the length that follows the name."""
    if name in MODELS:
        return MODELS[name], next(case for case in CASES.values() if case.model == name)
    name, _, length = name.rpartition("-")
    return MODELS[name], next(case for case in CASES.values() if case.model == name and str(case.seq) == length)


def exported(name, device):
    model, case = model_and_case(name)
    inputs, targets = make_inputs(model, case)
    inputs = {key: tensor.to(device) for key, tensor in inputs.items()}
    shapes = {key: dynamic(tensor) for key, tensor in model.inputs.items()}
    module, loss = model.build(device).train(), loss_function(model)
    if loss is None:
        return torch.export.export(module, (), inputs, dynamic_shapes=shapes)
    arguments = (inputs, targets.to(device))
    return torch.export.export(TrainingStep(module, loss), arguments, dynamic_shapes=(shapes, dynamic(model.targets)))


def without_weights(archive):
    """The archive with the entries that say what the model is, compressed and without any machine's paths."""
    packed = io.BytesIO()
    with zipfile.ZipFile(archive) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            if KEPT.search(entry.filename):
                content = source.read(entry)
                if entry.filename.endswith(".json"):
                    content = PATH.sub(r"\1/", content.decode().replace(f"{ROOT}/validation/", ""))
                target.writestr(zipfile.ZipInfo(entry.filename, NO_TIME), content, zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", choices=("meta", "cpu"), help="cpu where an input is a mask, else meta")
    parser.add_argument("--out", type=Path, default=ROOT / "validation" / "archives")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    register_caches()

    def export(name):
        buffer = io.BytesIO()
        device = arguments.device or ("cpu" if "attention_mask" in model_and_case(name)[0].inputs else "meta")
        torch.export.save(exported(name, device), buffer)
        packed = without_weights(buffer)
        (arguments.out / f"{name}.pt2").write_bytes(packed)
        return len(packed)

    make_all(arguments.names or MODELS, export)


if __name__ == "__main__":
    main()
