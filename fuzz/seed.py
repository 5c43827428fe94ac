"""Fills fuzz/corpus with files to begin from: what the readers' tests read, whole and in pieces.

    python3 fuzz/seed.py
"""

import gzip
import importlib.util
import json
import pathlib
import pickle
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "crates" / "trace" / "tests" / "data"
CORPUS = ROOT / "fuzz" / "corpus" / "read_snapshot"
CAPTURES = ROOT / "crates" / "graph" / "tests" / "captures"
LINT_CASES = ROOT / "crates" / "lint" / "corpus"
LINT_CORPUS = ROOT / "fuzz" / "corpus" / "lint_python"
CAPTURE_CORPORA = [ROOT / "fuzz" / "corpus" / name for name in ("read_capture", "simulate_capture")]
ARCHIVES = ROOT / "crates" / "graph" / "tests" / "archives"
ARCHIVE_CORPUS = ROOT / "fuzz" / "corpus" / "read_archive"


def load(path):
    """The Python file at `path` as a module."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def seed_python():
    """The linter's cases, and each cut short: broken Python."""
    LINT_CORPUS.mkdir(parents=True, exist_ok=True)
    for file in sorted(LINT_CASES.glob("*.py")):
        for number, case in enumerate(file.read_text().split("# case: ")[1:]):
            source = case.split("\n", 1)[1]
            (LINT_CORPUS / f"{file.stem}_{number}").write_text(source)
            (LINT_CORPUS / f"{file.stem}_{number}_cut").write_text(source[: len(source) * 2 // 3])


def main():
    seed_snapshots()
    seed_captures()
    seed_archives()
    seed_python()


def seed_archives():
    """The small archives whole, and their graphs alone."""
    ARCHIVE_CORPUS.mkdir(parents=True, exist_ok=True)
    for path in sorted(ARCHIVES.glob("*.pt2")):
        (ARCHIVE_CORPUS / path.name).write_bytes(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            graph = next(name for name in archive.namelist() if name.endswith("models/model.json"))
            (ARCHIVE_CORPUS / f"{path.stem}.json").write_bytes(archive.read(graph))


def seed_captures():
    """The small capture and the MLP, as text, so that a change of a byte is a change of the capture; one as gzip."""
    small = json.loads((CAPTURES / "small.json").read_text())
    mlp = json.loads(gzip.decompress((CAPTURES / "mlp.vramfit").read_bytes()))
    first = {section: mlp[section][:1] for section in ("variants", "types", "tensors", "steps")}
    empty = {key: type(value)() if isinstance(value, (list, dict)) else value for key, value in small.items()}
    for corpus in CAPTURE_CORPORA:
        corpus.mkdir(parents=True, exist_ok=True)
        for name, capture in {"small": small, "mlp": mlp, "one_variant": {**mlp, **first}, "empty": empty}.items():
            (corpus / name).write_text(json.dumps(capture, separators=(",", ":")))
        (corpus / "small.gz").write_bytes(gzip.compress(json.dumps(small).encode(), mtime=0))


def seed_snapshots():
    """The recordings that the snapshot reader's tests read, and parts of them in several protocols."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    snapshot = load(DATA / "make.py").make_snapshot()
    training = load(ROOT / "benchmarks" / "reader" / "generate.py").make_snapshot(events=20, depth=8, sites=4)
    small = {
        "segment": {"segments": snapshot["segments"][:1]},
        "entry": {"device_traces": [snapshot["device_traces"][0][:1]]},
        "training": {"device_traces": training["device_traces"]},
        "settings": {"segments": [], "allocator_settings": snapshot["allocator_settings"]},
        "annotations": {"segments": [], "external_annotations": snapshot["external_annotations"]},
        "history": [{
            "address": 0, "total_size": 512,
            "blocks": [{"size": 512, "state": "inactive", "history": [{"real_size": 1, "frames": []}]}],
        }],
        "values": [None, True, 1.5, 2**70, -(2**40), "x", b"x", bytearray(b"x"), (1,), (1, 2), (1, 2, 3, 4), {1: {2}}],
    }
    for path in DATA.glob("*.pickle*"):
        (CORPUS / path.name).write_bytes(path.read_bytes())
    for name, value in small.items():
        for protocol in (2, 4, 5):
            # A bytearray is a call below protocol 5, and a set below 4: those seeds are refused, as they should be.
            (CORPUS / f"{name}{protocol}").write_bytes(pickle.dumps(value, protocol))
    (CORPUS / "entry.gz").write_bytes(gzip.compress(pickle.dumps(small["entry"], 4), mtime=0))


if __name__ == "__main__":
    main()
