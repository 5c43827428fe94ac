"""How often the table is right about shapes it has not seen: python3 evaluate.py validation/measured/workspaces.jsonl.gz

Holds 2,000 recorded shapes back, looks for each one's nearest neighbour among the others, and prints a table by pass (needs numpy).
"""

import collections
import random
import sys

import numpy as np
from pack import Table, applied, load, reading


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
        near = tables[group].nearest(*shape.features())
        if near is None:
            continue
        tensors = shape.copies((1, 1, 1))
        for index, name in enumerate(("forward", "input gradient", "weight gradient")):
            guess = applied(shape, reading(near[0], near[1][index]))
            errors[(name, "channels " + shape.layout, tensors > 20e6)].append((guess - found[index]) / tensors)
    print("| pass | layout | tensors | shapes | to the byte | within 1 % of the tensors | within 10 % |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for (name, layout, is_large), found in sorted(errors.items()):
        far = np.abs(np.array(found))
        size = "over 20 MB" if is_large else "smaller"
        print(f"| {name} | {layout} | {size} | {len(far)} | {np.mean(far == 0):.0%} | {np.mean(far < 0.01):.0%} | {np.mean(far < 0.1):.0%} |")


if __name__ == "__main__":
    main()
