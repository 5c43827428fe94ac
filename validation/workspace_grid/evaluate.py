"""How often the table is right about shapes it has not seen: python3 evaluate.py validation/measured/workspaces.jsonl.gz

Holds 2,000 recorded shapes back, asks each one's five nearest neighbours among the others as vramfit does, and prints a
table by pass (needs numpy). In the last column: how often the recorded workspace lies within what the neighbours say.
"""

import collections
import random
import sys

import numpy as np
from pack import Table, applied, load, reading


def guess(said, tensors):
    """What most say, else the nearest; the middle one where that is far off."""
    most, count = collections.Counter(said).most_common(1)[0]
    first = most if count >= 2 and said.count(said[0]) < count else said[0]
    middle = sorted(said)[len(said) // 2]
    return middle if abs(first - middle) > tensors / 4 else first


def main():
    rows = load(sys.argv[1:])
    random.Random(9).shuffle(rows)
    held, known = rows[:2000], rows[2000:]
    groups = collections.defaultdict(list)
    for row in known:
        groups[row[0].group()].append(row)
    tables = {}
    errors = collections.defaultdict(list)
    for shape, found in held:
        group = shape.group()
        if group not in tables:
            tables[group] = Table(len(groups[group]))
            for row in groups[group]:
                tables[group].add(row, *row[0].features())
        if not tables[group].kept:
            continue
        nearest = np.argsort(tables[group].distances(*shape.features()), kind="stable")[:5]
        tensors = shape.copies((1, 1, 1))
        for index, name in enumerate(("forward", "input gradient", "weight gradient")):
            near = [tables[group].kept[number] for number in nearest]
            said = [applied(shape, reading(other, workspaces[index])) for other, workspaces in near]
            row = (guess(said, tensors) - found[index]) / tensors, min(said) <= found[index] <= max(said)
            errors[(name, "channels " + shape.layout, tensors > 20e6)].append(row)
    print("| pass | layout | tensors | shapes | to the byte | within 1 % of the tensors | within 10 % | within the range |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for (name, layout, is_large), found in sorted(errors.items()):
        far, covered = np.abs(np.array([row[0] for row in found])), np.mean([row[1] for row in found])
        size = "over 20 MB" if is_large else "smaller"
        print(f"| {name} | {layout} | {size} | {len(far)} | {np.mean(far == 0):.0%} | {np.mean(far < 0.01):.0%} | {np.mean(far < 0.1):.0%} | {covered:.0%} |")


if __name__ == "__main__":
    main()
