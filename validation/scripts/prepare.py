"""Makes a folder in which a script can run: a copy of its sources and the files it expects, with random contents."""

import pathlib
import random
import shutil
import tarfile

import numpy
import table

WORDS = 2000


def images(path, count, size, mode="RGB", prefix=""):
    """Pictures of random pixels, `size` is width and height."""
    from PIL import Image

    path.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
        high = 256 if mode == "RGB" else 2
        pixels = numpy.random.RandomState(number).randint(0, high, shape, dtype=numpy.uint8)
        Image.fromarray(pixels).save(path / f"{prefix}{number:03}.png")


def image(path, size):
    """One picture."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(numpy.random.RandomState(1).randint(0, 256, (size[1], size[0], 3), dtype=numpy.uint8)).save(path)


def text(path, words, line=20):
    """Lines of words from a fixed vocabulary, each word at least once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(words)
    chosen = [f"w{number}" for number in range(min(WORDS, words))]
    chosen += [f"w{draw.randrange(WORDS)}" for _ in range(words - len(chosen))]
    path.write_text("\n".join(" ".join(chosen[at : at + line]) for at in range(0, len(chosen), line)) + "\n")


def characters(path, count):
    """Printable characters, each at least once, and the words that a script looks for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    alphabet = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    draw = random.Random(count)
    path.write_text(alphabet + "".join(draw.choice(alphabet) for _ in range(count)))


def array(path, shape, high, dtype):
    """An array of random integers: `.npy`, or raw numbers for other endings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = numpy.random.RandomState(7).randint(0, high, shape).astype(dtype)
    if path.suffix == ".npy":
        numpy.save(path, values)
    else:
        values.tofile(path)


def cora(path, papers=2000, words=300):
    """A citation graph in Cora's format."""
    path.mkdir(parents=True, exist_ok=True)
    draw = numpy.random.RandomState(11)
    rows = draw.randint(0, 2, (papers, words))
    lines = [f"{number} {' '.join(map(str, row))} class{number % 7}" for number, row in enumerate(rows)]
    (path / "cora.content").write_text("\n".join(lines) + "\n")
    pairs = sorted({(int(one), int(other)) for one, other in draw.randint(0, papers, (4 * papers, 2)) if one != other})
    (path / "cora.cites").write_text("".join(f"{one} {other}\n" for one, other in pairs))


def folder(path):
    """An empty folder that the script expects."""
    path.mkdir(parents=True, exist_ok=True)


_KINDS = {"images": images, "image": image, "text": text, "characters": characters, "array": array, "folder": folder, "cora": cora}


def prepare(script, checkouts, work):
    """Returns the script's path and the working directory."""
    root = pathlib.Path(work) / script.name.replace("/", "+")
    if root.exists():
        shutil.rmtree(root)
    if script.is_blind:
        with tarfile.open(table.BLIND[script.part]) as archive:
            archive.extract(script.path, root, filter="data")
        return root / script.path, root
    source = table.HERE / "own" if script.repository is None else pathlib.Path(checkouts) / script.repository.replace("/", "+")
    if not (source / script.path).is_file():
        raise FileNotFoundError(f"{source / script.path}: run checkout.py first")
    shutil.copytree(source, root)
    place = root / script.path
    for entry in script.files:
        entry = dict(entry)
        _KINDS[entry.pop("kind")](place.parent / entry.pop("path"), **entry)
    return place, place.parent


def environment(script, place, base):
    """The variables with which the script is started: the shim comes first on Python's path."""
    paths = [str(table.HERE / "shim"), *[str((place.parent / one).resolve()) for one in script.paths]]
    if base.get("PYTHONPATH"):
        paths.append(base["PYTHONPATH"])
    made = {**base, "PYTHONPATH": ":".join(paths), "TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    made.update({name: str(value) for name, value in script.environment.items()})
    if script.modules:
        made["MADE_UP_MODULES"] = " ".join(script.modules)
    if script.steps:
        made["MADE_UP_STEPS"] = str(script.steps)
    return made
