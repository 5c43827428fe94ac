"""What PyTorch's MemTracker and Accelerate's `estimate-memory` say about xMem's runs, next to a GPU:

    python other_estimators.py > estimators.json     the peak of two fake steps in MemTracker; weights, gradients and Adam's state in Accelerate
    python other_estimators.py --add estimators.json puts them into runs.jsonl

MemTracker follows a real loop with fake tensors. Their backward pass needs a device, so without a GPU use `--device cpu`, where sizes are not rounded.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
RUNS = HERE / "runs.jsonl"
FAMILIES = ("xMem conv nets", "xMem transformers")
OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
}


def tracked(run, device):
    """The peak that MemTracker reports, in bytes."""
    from models import MODELS
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    flags = dict(zip(run["flags"][::2], run["flags"][1::2]))
    sizes = {"batch": int(flags["--batch"]), "seq": int(flags.get("--seq", 0))}
    build, inputs, targets = MODELS[run["model"]]
    built = build().train()

    def tensor(described):
        dtype, shape = described
        return torch.ones([sizes.get(size, size) for size in shape], dtype=dtype, device=device)

    torch.__future__.set_overwrite_module_params_on_conversion(True)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = built.to_empty(device=device)
        optimizer = OPTIMIZERS[flags["--optimizer"]](model.parameters(), lr=1e-3)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        with tracker:
            for _ in range(2):
                outputs = model(**{name: tensor(described) for name, described in inputs.items()})
                loss = torch.nn.functional.cross_entropy(outputs, tensor(targets)) if targets else outputs.loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                tracker.reset_mod_stats()
        peaks = tracker.get_tracker_snapshot("peak")
    return sum(peak["Total"] for kept, peak in peaks.items() if kept.type == device)


def estimated(run):
    """What `accelerate estimate-memory` prints for training with Adam in float32, in bytes."""
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils.modeling import calculate_maximum_sizes
    from models import MODELS

    total, _ = calculate_maximum_sizes(MODELS[run["model"]][0]())
    return int(max(estimate_training_usage(total, "float32").values()))


def answers(device):
    found = {}
    for run in read():
        if run["family"] in FAMILIES:
            try:
                found[run["id"]] = {"MemTracker": tracked(run, device), "Accelerate": estimated(run)}
            except Exception as error:  # a peer that cannot is reported, not hidden
                found[run["id"]] = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(run["id"], found[run["id"]], file=sys.stderr, flush=True)
    return found


def read():
    return [json.loads(line) for line in RUNS.read_text().splitlines()]


def add(path):
    found = json.loads(path.read_text())
    runs = read()
    for run in runs:
        answered = found.get(run["id"], {})
        run.get("peers", {}).update({name: size for name, size in answered.items() if name != "error"})
    RUNS.write_text("".join(json.dumps(run) + "\n" for run in runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--add", type=Path, metavar="FILE", help="put the answers of FILE into runs.jsonl")
    given = parser.parse_args()
    if given.add:
        add(given.add)
    else:
        json.dump(answers(given.device), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
