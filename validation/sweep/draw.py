"""Draws cases of the sweep at random: models that were answered, each with a batch, a precision, an optimizer and a loop.

    python validation/sweep/draw.py --lines lines.jsonl --count 150 --seed 1 --out cases.jsonl
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

# How often a library is drawn from, compared with the others; transformers has most of the models.
WEIGHTS = {"torchvision": 2, "timm": 2, "torchaudio": 1, "diffusers": 2, "transformers": 5}


def main() -> None:
    """Writes one line of JSON per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=Path, required=True, help="what sweep.py wrote")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--without", type=Path, action="append", default=[], help="cases whose models are not drawn again")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    used = {(case["library"], case["model"]) for path in given.without for case in map(json.loads, path.read_text().splitlines())}
    lines = {(line["library"], line["model"]): line for line in map(json.loads, given.lines.read_text().splitlines())}
    draw = random.Random(given.seed)
    left = {library: sorted(model for (of, model), line in lines.items() if of == library and line["answered"] and (of, model) not in used) for library in WEIGHTS}
    cases = []
    while len(cases) < given.count and any(left.values()):
        library = draw.choices(list(WEIGHTS), [weight if left[library] else 0 for library, weight in WEIGHTS.items()])[0]
        model = left[library].pop(draw.randrange(len(left[library])))
        batch, amp, optimizer = draw.choice((1, 2, 3, 4, 6)), draw.choice((None, None, None, "bf16")), draw.choice(("adamw", "adamw", "adam", "sgd"))
        accumulate, clip = draw.choice((1, 1, 1, 2)), draw.random() < 0.25
        name = f"{library}/{model}"
        cases.append({"name": name, "library": library, "model": model, "batch": batch, "amp": amp, "optimizer": optimizer,
                      "accumulate": accumulate, "clip_grad": clip})  # fmt: skip
    given.out.write_text("".join(json.dumps(case) + "\n" for case in cases))


if __name__ == "__main__":
    main()
