"""Writes crates/cudnn/data/cudnn-sample.txt, which a test of the trees uses: every thirtieth shape of a random sample that was held back.

    python3 sample.py validation/measured/plans-blind.jsonl.xz

A line is: type, layout, batch, inputs, outputs, groups, then by dimension sides, sides of the result, kernel, stride, dilation, then
the workspaces of the three passes.
"""

import sys

import table as tables
from shapes import Shape, load

TARGET = tables.DATA / "cudnn-sample.txt"
EVERY = 30


def main():
    rows = sorted(load(sys.argv[1:]).items())[::EVERY]
    with TARGET.open("w") as file:
        for _, (row, *workspaces) in rows:
            shape = Shape(row)
            sides = (shape.spatial, shape.after, shape.kernel, shape.stride, shape.dilation)
            words = [shape.dtype, shape.layout, shape.batch, shape.inputs, shape.outputs, shape.groups]
            file.write(" ".join(map(str, [*words, *("x".join(map(str, side)) for side in sides), *workspaces])) + "\n")
    print(len(rows), "shapes")


if __name__ == "__main__":
    main()
