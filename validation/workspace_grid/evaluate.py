"""How often the trees are right about shapes they have not seen:

    python3 evaluate.py validation/measured/workspaces.jsonl.xz validation/measured/plans{,-series}.jsonl.xz --asked validation/measured/plans-blind.jsonl.xz
    python3 evaluate.py … --held batch|inputs|side

Asks about the shapes of another draw that are in no series, or holds a whole family back (every shape of batch 32, of 128 input channels, of side 28), grows the trees from the
others, and prints a table by pass. `in range`: the workspace lies within what the trees say; `certain`: of how many all say the same, and how
many of these are right. Needs numpy and rustc.
"""

import argparse

import numpy as np
from features import Columns, features
from forms import applied
from growing import asked, forest
from pack import forms_of
from pack_series import key_of, last_batches
from shapes import load

LARGE = 20e6
FAMILIES = {
    "batch": lambda row: row[0][2] == 32,
    "inputs": lambda row: row[0][4] == 128,
    "side": lambda row: row[0][3][-1] == 28,
}


def likeliest(said):
    """By shape, what most trees say; the middle one where no two agree."""
    said = np.sort(said, 0)
    best, most = said[len(said) // 2].copy(), np.ones(said.shape[1], int)
    for one in said:
        votes = (said == one).sum(0)
        best, most = np.where(votes > most, one, best), np.maximum(votes, most)
    return best


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--asked")
    parser.add_argument("--held", choices=FAMILIES)
    arguments = parser.parse_args()
    known = load(arguments.paths)
    if arguments.asked:
        last = last_batches()
        held = [row for name, row in load([arguments.asked]).items() if name not in known and row[0][2] > last.get(key_of(row[0]), 0)]
    else:
        held = [row for row in known.values() if FAMILIES[arguments.held](row)]
        known = {name: row for name, row in known.items() if not FAMILIES[arguments.held](row)}
    known = list(known.values())
    print(len(known), "shapes are known,", len(held), "asked")
    columns, shapes = features(Columns([row[0] for row in known])), Columns([row[0] for row in held])
    asked_columns = features(shapes)
    print("| pass | tensors | shapes | to the byte | within 1 % of the tensors | within 10 % | in range | certain | right |")
    print("| --- | --- " + "| ---: " * 7 + "|")
    for index, name in enumerate(("forward", "input gradient", "weight gradient")):
        answers = [applied(shapes, asked(tree, asked_columns), index) for tree in forest(columns, forms_of(known, index))]
        said, tensors = np.array([bytes for bytes, _ in answers]), answers[0][1]
        truth = np.array([row[1 + index] for row in held])
        far, least, most = np.abs(likeliest(said) - truth) / tensors, said.min(0), said.max(0)
        for size, those in (("smaller", tensors <= LARGE), ("over 20 MB", tensors > LARGE)):
            certain = (least == most) & those
            shares = [far == 0, far < 0.01, far < 0.1, (least <= truth) & (truth <= most), least == most]
            cells = [f"{share[those].mean():.0%}" for share in shares] + [f"{(far == 0)[certain].mean():.0%}"]
            print(f"| {name} | {size} | {those.sum()} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
