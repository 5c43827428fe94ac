"""Takes some batches of every layer that `dense.py` was answered about, for the trees: `python3 sample_series.py OUT.jsonl.xz dense-1.gz …`"""

import json
import lzma
import random
import sys

from pack_series import answers_of

BATCHES = 12

if __name__ == "__main__":
    draw = random.Random(0)
    with lzma.open(sys.argv[1], "wt", preset=9) as out:
        for row, passes in answers_of(sys.argv[2:]):
            count = min(map(len, passes))
            batches = sorted({min(int(count ** draw.random()) + 1, count) for _ in range(BATCHES)}) if count else []
            if batches:
                layer = [*row[:2], *row[3:]]
                out.write(json.dumps([layer, [[batch, *(bytes[batch - 1] for bytes in passes)] for batch in batches]], separators=(",", ":")) + "\n")
