"""Plans every pair with the binary, without a GPU, and stores what it predicts and prints.

    python3 validation/plan/make.py --vramfit target/release/vramfit --out validation/plan/plans.json.gz
"""

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import files
from pairs import LISTS

CAPTURES = Path(__file__).resolve().parent.parent / "captures"


def ask(binary, command, pair):
    given = [binary, command, str(CAPTURES / f"{pair.model}.vramfit"), "--json", *pair.arguments()]
    began = time.time()
    result = subprocess.run(given, capture_output=True, text=True, env=dict(os.environ, VRAMFIT_CUDNN="off"))
    if result.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(given)}: {result.stderr}")
    return json.loads(result.stdout), time.time() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vramfit", default="target/release/vramfit")
    parser.add_argument("--list", choices=LISTS, default="all")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    plans = []
    for pair in LISTS[given.list]:
        answer, seconds = ask(given.vramfit, "plan", pair)
        start = answer["start"]
        best = {}
        for plan in answer["plans"]:
            best.setdefault(plan["effect"], plan)
        kept = ("settings", "changes", "peak_allocated", "peak_reserved", "slowdown", "effect", "code")
        plans.append(
            {
                "name": pair.name,
                "model": pair.model,
                "batch": pair.batch,
                "seq": pair.seq,
                "cap": pair.bytes,
                "verdict": start["verdict"],
                "start": start,
                "max_batch": answer["max_batch"],
                "plans": [{key: plan[key] for key in kept} for plan in best.values()],
            }
        )
        chosen = next(iter(best.values()), None)
        changes = "; ".join(change["after"] for change in chosen["changes"]) if chosen else "nothing fits"
        print(
            f"{pair.name}: {start['verdict']}, would reserve {start['peak_reserved'] / 2**30:.2f} GiB; "
            f"max batch {answer['max_batch']}; {seconds:.1f} s; {changes}",
            flush=True,
        )
    files.write(given.out, plans)


if __name__ == "__main__":
    main()
