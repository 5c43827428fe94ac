"""Draws scripts at random that were not looked at while `vramfit run` was made, and writes them as `drawn.toml`.

    python3 draw.py --checkouts DIR --seed 22 > drawn.toml

Of each kind a fixed number is drawn: image classifiers of torchvision in the training scripts of pytorch/examples and pytorch/vision, of timm in
its `train.py`, the examples of Accelerate and the GANs that `table.toml` does not have. Models, batches and precisions are drawn, too.
A script that fails on the GPU stays in the list, and in the page.
"""

import argparse
import json
import pathlib
import random
import sys

import table

ROOT = "huggingface/pytorch-image-models"


def image_net(draw, names):
    for name in draw.sample(names, 6):
        batch = draw.choice((8, 16, 32))
        yield {
            "name": f"drawn/imagenet-{name}", "repository": "pytorch/examples", "path": "imagenet/main.py",
            "arguments": ["--dummy", "--epochs", "1", "-a", name, "-b", batch, "--gpu", "0"], "data": "torchvision's FakeData, 192 pictures",
        }


def classification(draw, names):
    for name in draw.sample(names, 5):
        more = draw.choice(([], ["--amp"], ["--opt", "rmsprop"], ["--model-ema"]))
        yield {
            "name": f"drawn/classification-{name}", "repository": "pytorch/vision", "path": "references/classification/train.py",
            "arguments": ["--data-path", "data", "--model", name, "-b", draw.choice((8, 16)), "--epochs", "1", "-j", "2", "--output-dir", "out", *more],
            "data": "ImageFolder: 96 random pictures",
        }


def timm(draw, names):
    for name in draw.sample(names, 8):
        more = draw.choice(([], ["--amp"], ["--channels-last"], ["--amp", "--channels-last"], ["--grad-accum-steps", "2"]))
        optimizer = draw.choice(("sgd", "adamw", "lamb", "rmsproptf"))
        pictures = [{"kind": "images", "path": f"data/{split}/{label}", "count": 24, "size": [256, 256]} for split in ("train", "validation") for label in "ab"]
        yield {
            "name": f"drawn/timm-{name}", "repository": ROOT, "path": "train.py", "files": pictures,
            "arguments": [
                "--data-dir", "data", "--model", name, "-b", draw.choice((4, 8)), "--num-classes", "2", "--epochs", "1", "--workers", "2", "--opt", optimizer,
                "--lr", "0.001", "--output", "out", *more,
            ],
            "data": "48 and 48 random pictures",
        }


def accelerate(draw, checkouts, taken):
    folder = checkouts / "huggingface+accelerate" / "examples" / "by_feature"
    left = [path.stem for path in sorted(folder.glob("*.py")) if path.name not in taken and not any(part in path.stem for part in ("deepspeed", "megatron", "fsdp"))]
    for name in draw.sample(left, 4):
        yield {
            "name": f"drawn/accelerate-{name}", "repository": "huggingface/accelerate", "path": f"examples/by_feature/{name}.py", "steps": 6,
            "modules": ["datasets", "evaluate"], "environment": {"MADE_UP_HUB": 1}, "data": "MRPC: 96 and 48 random pairs of sentences; random weights of bert-base",
        }


def gans(draw, checkouts, taken):
    folder = checkouts / "eriklindernoren+PyTorch-GAN" / "implementations"
    left = [one.name for one in sorted(folder.iterdir()) if f"{one.name}.py" not in taken and (one / f"{one.name}.py").is_file()]
    left = [name for name in left if "datasets.MNIST" in (folder / name / f"{name}.py").read_text()]
    for name in draw.sample(left, min(4, len(left))):
        yield {
            "name": f"drawn/gan-{name}", "repository": "eriklindernoren/PyTorch-GAN", "path": f"implementations/{name}/{name}.py",
            "arguments": ["--n_epochs", "1", "--n_cpu", "2"], "data": "MNIST: 640 and 320 random pictures",
        }


def rows(checkouts, seed):
    """The drawn scripts."""
    import torchvision

    sys.path.insert(0, str(checkouts / ROOT.replace("/", "+")))
    import timm as models

    scripts = [script for script in table.scripts() if not script.name.startswith("drawn/")]
    taken = {pathlib.PurePath(script.path).name for script in scripts}
    seen = {argument for script in scripts for argument in script.arguments}
    classifiers = [name for name in torchvision.models.list_models(module=torchvision.models) if name not in seen]
    draw = random.Random(seed)
    yield from image_net(draw, classifiers)
    yield from classification(draw, classifiers)
    yield from timm(draw, models.list_models())
    yield from accelerate(draw, checkouts, taken)
    yield from gans(draw, checkouts, taken)


def value(one):
    """As TOML writes it; JSON's strings and numbers are TOML's."""
    if isinstance(one, dict):
        return "{ " + ", ".join(f"{key} = {value(item)}" for key, item in one.items()) + " }"
    if isinstance(one, list):
        return "[" + ", ".join(value(item) for item in one) + "]"
    return json.dumps(str(one) if isinstance(one, bool) else one)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkouts", type=pathlib.Path, required=True, help="the folder that checkout.py filled")
    parser.add_argument("--seed", type=int, required=True, help="what decides the draw")
    options = parser.parse_args()
    print(f"# Made by `draw.py --seed {options.seed}`; do not edit.")
    for row in rows(options.checkouts.resolve(), options.seed):
        print("\n[[public]]")
        for key, one in row.items():
            print(f"{key} = {value([str(item) for item in one] if key == 'arguments' else one)}")


if __name__ == "__main__":
    main()
