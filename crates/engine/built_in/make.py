"""Makes the built-in models: python crates/engine/built_in/make.py [--check] [--jobs N] [NAME…]

Each model of definitions.py is captured on the meta device (no weights, no downloads, no GPU), or made by vramfit of its
Hugging Face configuration, and packed; all of them go into models.bin, and what `vramfit models` shows into models.json. With names, only those are made anew and the rest is
kept. --check writes nothing and fails where the files are not what would have been written. Needs torch, torchvision,
transformers and cargo.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "python"), str(HERE)]

from definitions import BUILT_IN  # noqa: E402

INDEX, DATA = HERE / "models.json", HERE / "models.bin"


def capture(name, folder):
    """Writes folder/NAME.vramfit; returns the model's row of the index."""
    import torch

    import vramfit
    from vramfit.file_format import write

    torch.set_num_threads(1)
    begun = time.time()
    built_in = next(built_in for built_in in BUILT_IN if built_in.name == name)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = built_in.build()
    count = sum(parameter.numel() for parameter in model.parameters())
    if count != built_in.parameters:
        raise SystemExit(f"{name}: found {count} parameters, needed the published {built_in.parameters}")
    row = {"name": name, "family": built_in.family, "task": built_in.task, "version": built_in.version, "parameters": count}
    if built_in.config:
        (Path(folder) / f"{name}.json").write_text(json.dumps(built_in.config))
        inputs = [{"name": key, "dtype": "int64", "shape": list(tensor.shape)} for key, tensor in built_in.inputs.items()]
        return {**row, "inputs": inputs, "sizes": built_in.sizes, "limits": built_in.limits}
    tensors = {**built_in.inputs, **({"targets": built_in.targets} if built_in.targets else {})}
    examples = {key: tensor.example(built_in.sizes) for key, tensor in tensors.items()}
    targets = examples.pop("targets", None)
    captured = vramfit.capture(model, examples, Path(folder) / f"{name}.vramfit", targets=targets, loss=built_in.loss,
                               sizes={key: tensor.shape for key, tensor in tensors.items()})
    contents = captured.contents
    # The batch is part of a built-in model's definition, and so is what its values decide.
    for variant in contents["variants"]:
        kept = [cause for cause in variant.pop("causes", []) if "depends on the values of" not in cause]
        variant.update({"causes": kept} if kept else {})
    write(Path(folder) / f"{name}.vramfit", contents)
    if sorted(captured.symbols) != sorted(built_in.sizes) or len(captured.variants) != 18:
        raise SystemExit(f"{name}: found symbols {captured.symbols} and {len(captured.variants)} variants, needed "
                         f"{sorted(built_in.sizes)} and 18: {captured.notes}")
    print(f"{name}: captured, {time.time() - begun:.0f} s", file=sys.stderr, flush=True)
    inputs = [{key: tensor[key] for key in ("name", "dtype", "shape")} for tensor in contents["inputs"] + contents["targets"]]
    sizes = {symbol["name"]: symbol["example"] for symbol in contents["symbols"]}
    return {**row, "inputs": inputs, "sizes": sizes, "limits": built_in.limits}


def make(names, folder, jobs):
    """The rows of `names` and their packed models."""
    with ProcessPoolExecutor(jobs) as pool:
        rows = list(pool.map(capture, names, [folder] * len(names)))
    packer = ["cargo", "run", "--quiet", "--package", "vramfit-readers", "--example", "pack", "--", folder]
    packer += [f"{row['name']}:" + ",".join(f"{size}={value}" for size, value in row["sizes"].items()) for row in rows]
    subprocess.run(packer, check=True, cwd=ROOT)
    return {row["name"]: (row, (Path(folder) / f"{row['name']}.packed").read_bytes()) for row in rows}


def stored():
    """What the files hold now, as `make` gives it."""
    if not INDEX.exists():
        return {}
    data = DATA.read_bytes()
    rows = json.loads(INDEX.read_text())
    place = {row["name"]: row.pop("at") for row in rows}
    return {row["name"]: (row, data[place[row["name"]][0]:][:place[row["name"]][1]]) for row in rows}


def write(models):
    lines, data = [], b""
    for built_in in BUILT_IN:
        row, packed = models[built_in.name]
        lines.append(json.dumps({**row, "at": [len(data), len(packed)]}))
        data += packed
    INDEX.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    DATA.write_bytes(data)
    print(f"{len(lines)} models, {len(data)} bytes", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    known = [built_in.name for built_in in BUILT_IN]
    if unknown := set(arguments.names) - set(known):
        parser.error(f"found {', '.join(sorted(unknown))}, needed names of {', '.join(known)}")
    names = arguments.names or known
    before = stored()
    with tempfile.TemporaryDirectory() as folder:
        made = make(names, folder, arguments.jobs)
    if arguments.check:
        different = [name for name in names if made[name] != before.get(name)]
        if different:
            sys.exit(f"not what is stored: {', '.join(different)}")
        print(f"{len(names)} models are as stored", file=sys.stderr)
    else:
        write({**before, **made})


if __name__ == "__main__":
    main()
