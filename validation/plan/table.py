"""Writes docs/plan-accuracy.md from plans and measurements, or checks that it is up to date.

    python3 validation/plan/table.py --write | --check
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "plan-accuracy.md"
MIB = 1 << 20


def percent(measured, predicted):
    return 100 * (measured / predicted - 1)


def page():
    plans = json.loads((HERE / "plans.json").read_text())
    measured = {(row["name"], row["kind"]): row for row in json.loads((HERE / "measured.json").read_text())}
    starts = [measured[plan["name"], "start"] for plan in plans]
    died = sum("died" in row for row in starts)
    rows, ran, exact, worst = [], 0, 0, 0.0
    for plan in plans:
        for chosen in plan["plans"]:
            row = measured[plan["name"], f"plan-{chosen['effect']}"]
            assert row["predicted"]["peak_reserved"] == chosen["peak_reserved"]
            off = [percent(row[key], chosen[key]) for key in ("peak_allocated", "peak_reserved")]
            ran += "died" not in row
            exact += off == [0.0, 0.0]
            worst = max(worst, *map(abs, off))
            changes = "; ".join(change["after"] for change in chosen["changes"])
            rows.append(
                f"| {plan['model']} | {plan['batch']} | {plan['cap'] // MIB} | {chosen['effect']} | {changes} "
                f"| {'dies' if 'died' in row else 'runs'} | {row['peak_reserved'] // MIB} | {off[0]:+.3f} % | {off[1]:+.3f} % |"
            )
    batches, equal, above = [], 0, 0
    for plan in plans:
        last, following = measured.get((plan["name"], "max-batch"), {}), measured[plan["name"], "max-batch-and-one"]
        fits, next_dies = "died" not in last, "died" in following
        # What was run may be what an earlier program said.
        largest = last.get("batch", 0) if next_dies else following["batch"]
        is_below = fits and plan["max_batch"] < largest
        equal += fits and next_dies and not is_below
        above += not fits or (next_dies and plan["max_batch"] > largest)
        told = f"{largest} ran" if is_below else "equal" if fits and next_dies else "too many"
        batches.append(f"| {plan['model']} | {plan['seq'] or ''} | {plan['cap'] // MIB} | {plan['max_batch']} | {told} |")
    total = len(rows)
    lines = [
        "# Plans on a GPU",
        "",
        "Made by `python3 validation/plan/table.py --write` from plans that were made without a GPU (`make.py`) and runs on an",
        "H200 with torch 2.11 under `set_per_process_memory_fraction` (`run.py`). "
        f"Of {len(starts)} starts {died} die with OutOfMemoryError;",
        f"of {total} printed plans {ran} run three steps, {exact} of them with both peaks to the byte, the worst {worst:.3f} % off.",
        "Plans and peaks are those of the present program; the runs were made when it printed the same code.",
        "",
        "| model | batch | cap, MiB | effect | plan | the printed code | reserved, MiB | allocated off | reserved off |",
        "| --- | ---: | ---: | --- | --- | --- | ---: | ---: | ---: |",
        *rows,
        "",
        "## The largest batch",
        "",
        f"`vramfit max-batch` under the same caps: that batch and the next one were run, or those that an earlier program named. {equal} of {len(batches)} are equal to the",
        f"trial, {above} above it. Where convolutions' workspaces are guessed, as SegFormer's and the denoiser's are, peaks may be off.",
        "",
        "| model | sequence | cap, MiB | max-batch | beside the trial |",
        "| --- | ---: | ---: | ---: | --- |",
        *batches,
        "",
    ]
    return "\n".join(lines)


def main():
    text = page()
    if sys.argv[1:] == ["--check"]:
        if PAGE.read_text() != text:
            raise SystemExit(f"{PAGE}: not what the measurements give; run validation/plan/table.py --write")
        return
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("needed --write or --check")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
