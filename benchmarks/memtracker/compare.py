"""Times vramfit against PyTorch's MemTracker under FakeTensorMode: three training steps of BERT-base or ResNet-50, in one run.

    python benchmarks/memtracker/compare.py [--model bert-base|resnet50] [--batch N] [--seq N] [--repetitions N]

Both sides get the same model, batch, sequence, Adam and three steps, and take turns. MemTracker (torch.distributed._tools) gets
fake CPU tensors, since fake CUDA tensors do not run backward without a GPU. Building the model is not counted on its side.
vramfit is timed from a loaded graph, and again including the capture (all precisions and modes, after imports). Python's times
are CPU seconds of one thread, and vramfit's is the fastest of 200 estimates, so that other load on the machine does not count.
Exits with 1 if vramfit is less than 10,000 times as fast, or less than 5 times with the capture, or if the capture takes a second
or more per precision. Needs torch, transformers and, for ResNet-50, torchvision.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import transformers  # noqa: E402
import vramfit  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402

STEPS = 3
ESTIMATES = 200


class Bert:
    name, example = "bert-base", (4, 32)

    @staticmethod
    def build():
        return transformers.BertForSequenceClassification(transformers.BertConfig()).train()

    @staticmethod
    def inputs(batch, seq):
        return {"input_ids": torch.zeros(batch, seq, dtype=torch.long), "labels": torch.zeros(batch, dtype=torch.long)}

    targets = loss = None

    @staticmethod
    def step(model, inputs):
        model(**inputs).loss.backward()


class ResNet:
    name, example = "resnet50", (4, 0)

    @staticmethod
    def build():
        import torchvision

        return torchvision.models.resnet50().train()

    @staticmethod
    def inputs(batch, _):
        return {"x": torch.zeros(batch, 3, 224, 224)}

    @staticmethod
    def targets(batch):
        return torch.zeros(batch, dtype=torch.long)

    loss = staticmethod(torch.nn.functional.cross_entropy)

    @classmethod
    def step(cls, model, inputs):
        cls.loss(model(**inputs), cls.targets(len(inputs["x"]))).backward()


KINDS = {kind.name: kind for kind in (Bert, ResNet)}


def memtracker(kind, batch, seq):
    """Seconds for three tracked steps, and the peak that MemTracker reports."""
    with FakeTensorMode():
        model, inputs = kind.build(), kind.inputs(batch, seq)
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        tracker = MemTracker()
        tracker.track_external(model, optimizer, *inputs.values())
        begun = time.process_time()
        with tracker:
            for _ in range(STEPS):
                optimizer.zero_grad()
                kind.step(model, inputs)
                optimizer.step()
                tracker.reset_mod_stats()  # it takes no second pass otherwise
        seconds = time.process_time() - begun
    peaks = tracker.get_tracker_snapshot("peak")
    return seconds, max(parts["Total"] for parts in peaks.values())


def capture(kind, path):
    """Seconds for a whole capture, and how many precisions it has."""
    with torch.device("meta"):
        model = kind.build()
    extra = {"targets": kind.targets(kind.example[0]), "loss": kind.loss} if kind.loss else {}
    begun = time.process_time()
    vramfit.capture(model, kind.inputs(*kind.example), path, **extra)
    seconds = time.process_time() - begun
    variants = json.loads(gzip.decompress(path.read_bytes()))["variants"]
    return seconds, len({variant["precision"] for variant in variants})


def estimate(program, path, batch, seq):
    """Seconds for the fastest of several estimates from one loaded graph, and the peak."""
    command = [program, path, str(batch), str(seq), str(ESTIMATES)]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    seconds = [float(value) for key, value in zip(words[::2], words[1::2]) if key == "seconds"]
    return min(seconds), int(words[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=KINDS, default="bert-base")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    build_command = ["cargo", "build", "--release", "--quiet", "--package", "vramfit-training", "--example", "time_estimate"]
    subprocess.run(build_command, cwd=ROOT, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release/examples/time_estimate"
    torch.set_num_threads(1)
    kind = KINDS[options.model]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind.name}.vramfit"
        capture(kind, path)  # what the first call imports is not counted
        for _ in range(options.repetitions):
            captured, precisions = capture(kind, path)
            estimated, peak = estimate(program, path, options.batch, options.seq if kind is Bert else 0)
            tracked, tracked_peak = memtracker(kind, options.batch, options.seq)
            rows.append((tracked, estimated, captured, captured / precisions))
            print(
                f"MemTracker {tracked:.2f} s, vramfit {estimated * 1e3:.3f} ms, capture {captured:.2f} s"
                f" ({precisions} precisions)",
                flush=True,
            )
    tracked, estimated, captured, precision = (statistics.median(column) for column in zip(*rows))
    alone, together = tracked / estimated, tracked / (estimated + captured)
    print(f"peak: MemTracker {tracked_peak} bytes, vramfit {peak} bytes")
    print(f"vramfit is {alone:,.0f} times as fast; {together:.1f} times with the capture counted in")
    print(f"capture: {precision:.2f} s a precision")
    sys.exit(0 if alone >= 10_000 and together >= 5 and precision < 1 else 1)


if __name__ == "__main__":
    main()
