"""How often the tables are right about shapes they have not seen:

    python3 evaluate.py validation/measured/workspaces.jsonl.gz… [--held chance|batch|inputs|side | --asked FILE] [--shapes 3000]

Holds recorded shapes back (by chance, or a whole family: every shape of batch 32, of 128 input channels, of side 28) or takes
those of another recording, makes the tables from the others, asks them as vramfit does, and prints a table by pass; before: five neighbours without classes, as it
was. `in range`: the recorded workspace lies within what is said of it; `certain`: of how many nothing else is said, and how many
of these are right. Needs numpy and scikit-learn.
"""

import argparse
import collections
import random

import numpy as np
from pack import forest
from readings import applied, named, reading
from shapes import UNIT, load

WEIGHTS = np.array([1, 1, 4, 4, 1, 1, 1])  # batch, area, inputs, outputs, rows of the result, weight, groups
BEFORE = np.array([1, 1, 2, 2, 1, 1, 1])
ALIGNMENT, FLOAT16 = 2 * UNIT, UNIT // 5
FAMILIES = {
    "chance": None,
    "batch": lambda shape: shape.batch == 32,
    "inputs": lambda shape: shape.inputs == 128,
    "side": lambda shape: shape.spatial[-1] == 28,
}
OTHERS, ALL_NEIGHBOURS = 3, 5


def likeliest(said, tensors):
    """Before: what most say, else the nearest; the middle one where that is far off."""
    most, count = collections.Counter(said).most_common(1)[0]
    first = most if count >= 2 and said.count(said[0]) < count else said[0]
    middle = sorted(said)[len(said) // 2]
    return middle if abs(first - middle) > tensors / 4 else first


class Known:
    def __init__(self, rows):
        self.rows = rows
        self.features = np.array([shape.features()[0] for shape, _ in rows])
        self.flags = np.array([shape.features()[1] for shape, _ in rows])
        self.readings = [[reading(shape, found[index], index) for shape, found in rows] for index in range(3)]
        self.classes = [np.array([named(read) for read in readings]) for readings in self.readings]
        self.groups = collections.defaultdict(list)
        for number, (shape, _) in enumerate(rows):
            self.groups[shape.group()].append(number)
        self.groups = {group: np.array(numbers) for group, numbers in self.groups.items()}
        traits = np.array([shape.traits() for shape, _ in rows], dtype=np.float32)
        self.forests = [forest(traits, self.classes[index]) for index in range(3)]

    def nearest(self, shape, weights):
        numbers = self.groups.get(shape.group(), np.array([], dtype=int))
        features, flags = shape.features()
        far = (np.abs(self.features[numbers] - features) * weights).sum(1)
        differing = self.flags[numbers] ^ flags
        far += sum(((differing >> bit) & 1) * ALIGNMENT for bit in range(4)) + (differing >> 4 & 1) * FLOAT16
        return numbers[np.argsort(far, kind="stable")]

    def votes(self, index, traits):
        """Classes by votes of each row, the first voter's first among equals."""
        model = self.forests[index]
        ballots = np.array([model.classes_[tree.predict(traits).astype(int)] for tree in model.estimators_])
        return [collections.Counter(column.tolist()).most_common() for column in ballots.T]

    def answers(self, shape, index, votes, near, before):
        say = lambda numbers: [applied(shape, self.readings[index][number], index) for number in numbers]  # noqa: E731
        tensors = shape.copies((1, 1, 1))
        old = say(before[:ALL_NEIGHBOURS])
        of_class = lambda name: near[self.classes[index][near] == name]  # noqa: E731
        first = next((say(of_class(name)[:1])[0] for name, _ in votes if len(of_class(name))), None)
        everything = [*say(near[:ALL_NEIGHBOURS]), *(bytes for name, _ in votes for bytes in say(of_class(name)[:OTHERS]))]
        expected = likeliest(say(near[:ALL_NEIGHBOURS]), tensors) if first is None else first
        return expected, min(everything), max(everything), likeliest(old, tensors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--held", choices=FAMILIES, default="chance")
    parser.add_argument("--asked", help="another recording, such as a new draw of grid.py")
    parser.add_argument("--shapes", type=int, default=3000)
    arguments = parser.parse_args()
    rows = load(arguments.paths)
    random.Random(9).shuffle(rows)
    family = FAMILIES[arguments.held]
    if arguments.asked:
        seen = {str(vars(shape)) for shape, _ in rows}
        held, known = [row for row in load([arguments.asked]) if str(vars(row[0])) not in seen], rows
        random.Random(9).shuffle(held)
        held = held[: arguments.shapes]
    elif family is None:
        held, known = rows[: arguments.shapes], rows[arguments.shapes :]
    else:
        held, known = [row for row in rows if family(row[0])], [row for row in rows if not family(row[0])]
        print(len(held), "shapes are held back,", min(arguments.shapes, len(held)), "asked")
        held = held[: arguments.shapes]
    table = Known(known)
    traits = np.array([shape.traits() for shape, _ in held], dtype=np.float32)
    orders = [(table.nearest(shape, WEIGHTS), table.nearest(shape, BEFORE)) for shape, _ in held]
    print("| pass | tensors | shapes | to the byte | before | within 1 % of the tensors | before | within 10 % | before | in range | certain | right |")
    print("| --- | --- " + "| ---: " * 10 + "|")
    for index, name in enumerate(("forward", "input gradient", "weight gradient")):
        votes = table.votes(index, traits)
        found = collections.defaultdict(list)
        for number, (shape, workspaces) in enumerate(held):
            near, before = orders[number]
            if not len(near):
                continue
            expected, least, most, old = table.answers(shape, index, votes[number], near, before)
            tensors, truth = shape.copies((1, 1, 1)), workspaces[index]
            far, old_far = abs(expected - truth) / tensors, abs(old - truth) / tensors
            row = [far == 0, old_far == 0, far < 0.01, old_far < 0.01, far < 0.1, old_far < 0.1, least <= truth <= most, least == most,
                   least == most == truth]  # fmt: skip
            found["over 20 MB" if tensors > 20e6 else "smaller"].append(row)
        for size, numbers in sorted(found.items(), reverse=True):
            *shares, certain, right = np.array(numbers, dtype=float).mean(0)
            cells = [f"{share:.0%}" for share in [*shares, certain, right / max(certain, 1e-9)]]
            print(f"| {name} | {size} | {len(numbers)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
