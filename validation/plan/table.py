"""Writes docs/plan-accuracy.md from plans and measurements, or checks that it is up to date.

    python3 validation/plan/table.py --write | --check
"""

import statistics
import sys
from pathlib import Path

import files

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "plan-accuracy.md"
MIB = 1 << 20


def percent(measured, predicted):
    return 100 * (measured / predicted - 1)


HEAD = [
    "| model | batch | cap, MiB | effect | plan | the printed code | reserved, MiB | allocated off | reserved off |",
    "| --- | ---: | ---: | --- | --- | --- | ---: | ---: | ---: |",
]


def run_rows(plans, measured):
    """A row for each printed plan; how many ran, with both peaks to the byte, and the worst error."""
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
    return rows, ran, exact, worst


def by_kind(name):
    return {(row["name"], row["kind"]): row for row in files.read(HERE / name)}


def page():
    plans, measured = files.read(HERE / "plans.json.gz"), by_kind("measured.json.gz")
    starts = [measured[plan["name"], "start"] for plan in plans]
    died = sum("died" in row for row in starts)
    rows, ran, exact, worst = run_rows(plans, measured)
    batches, equal, above = [], 0, 0
    for plan in plans:
        last, following = measured.get((plan["name"], "max-batch"), {}), measured[plan["name"], "max-batch-and-one"]
        fits, next_dies = "died" not in last, "died" in following
        # What was run may be what an earlier program said.
        largest = last.get("batch", 0) if next_dies else following["batch"]
        is_below = fits and plan["max_batch"] < largest
        equal += fits and next_dies and not is_below
        above += not fits or (next_dies and plan["max_batch"] > largest)
        outcome = f"{largest} ran" if is_below else "equal" if fits and next_dies else "too many"
        batches.append(f"| {plan['model']} | {plan['seq'] or ''} | {plan['cap'] // MIB} | {plan['max_batch']} | {outcome} |")
    total = len(rows)
    lines = [
        "# Plans on a GPU",
        "",
        "Made by `python3 validation/plan/table.py --write` from plans that were made without a GPU (`make.py`) and runs on an",
        "H200 with torch 2.11 under `set_per_process_memory_fraction` (`run.py`). "
        f"Of {len(starts)} starts {died} die with OutOfMemoryError;",
        f"of {total} printed plans {ran} run three steps, {exact} of them with both peaks to the byte, the worst {worst:.3f} % off.",
        "The plans of this table were made in three groups and without a margin (`--margin 0`); those below are of the present program.",
        "",
        *HEAD,
        *rows,
        "",
        *single_section(),
        "## The largest batch",
        "",
        f"`vramfit max-batch` under the same caps: that batch and the next one were run, or those that an earlier program named. {equal} of {len(batches)} are equal to the",
        f"trial, {above} above it. Where convolutions' workspaces are guessed, as SegFormer's and the denoiser's are, peaks may be off.",
        "",
        "| model | sequence | cap, MiB | max-batch | beside the trial |",
        "| --- | ---: | ---: | ---: | --- |",
        *batches,
        "",
        *drawn_section("drawn", "Models drawn from the sweep", FIRST_DRAW),
        *drawn_section("again", "DenseNet-169 again", AGAIN),
        *drawn_section("drawn2", "Another draw, with channels last in the search", SECOND_DRAW),
        *drawn_section("drawn3", "A third draw", THIRD_DRAW),
        *drawn_section("drawn4", "A fourth draw", FOURTH_DRAW),
    ]
    return "\n".join(lines)


def single_section():
    """One trick at a time."""
    plans, measured = files.read(HERE / "single-plans.json.gz"), by_kind("single-measured.json.gz")
    rows, ran, exact, worst = run_rows(plans, measured)
    died = sum("died" in measured[plan["name"], "start"] for plan in plans)
    return [
        "## One trick alone",
        "",
        "Plans in which all other settings had to stay (`make.py --list single`), with the default margin. Where channels are last, the start runs too: the allocator",
        f"frees cached memory and tries again. {died} of {len(plans)} starts die, {ran} of {len(rows)} plans run, {exact} with both peaks to the byte, the worst {worst:.3f} % off.",
        "",
        *HEAD,
        *rows,
        "",
    ]


FIRST_DRAW = [
    "Step times were measured for six models that were alone on the GPU; the others ran eight at a time.",
    "DenseNet-169 fails with an error of batch norm, not of memory: its layers get a list that grows after the call, so that a layer",
    "that is checkpointed alone computes from another list in the backward pass. Plans propose this no more ([again](#densenet-169-again)).",
]
AGAIN = ["After modules that get a list which grows were no longer checkpointed alone."]
SECOND_DRAW = [
    "They were drawn, planned and run once, after channels last, fused attention and saved tensors on the CPU had become part of the search (`--seed 311`).",
    "Three more were drawn whose plans need bitsandbytes, which was not on the machine. Two plans for a model that is on the GPU already update weights in the",
    "backward pass: `apply` refuses an optimizer that exists and asks for a function that makes one. Models ran seven at a time, without a run for their times.",
]
THIRD_DRAW = [
    "They were drawn, planned and run once (`--seed 39`), eight and fifteen at a time; `after` was run for the first 11, for want of time on the GPU. One more was drawn,",
    "ShieldGemma2: its example fails in the model's own code, without a plan too. The plans that failed update weights in the backward pass: `apply` refused the optimizer",
    "that existed. Since then it divides such an optimizer (`test_a_live_optimizer_is_divided_and_goes_on_afterwards`); they were not run on a GPU again.",
]

FOURTH_DRAW = [
    "They were drawn, planned and run once (`--seed 31`), when an optimizer that exists was divided for updates in the backward pass. 30 models ran ten at a time;",
    "the ten largest one or three at a time. Eleven plans for a model that is on the GPU update weights in the backward pass; eight use optimizers of",
    "bitsandbytes. Seven of the models are in an earlier draw, too. Times of ten processes on one GPU say little: those [below](#step-times-one-process-at-a-time) were measured",
    "for it.",
]


def drawn_section(name, title, remarks):
    """The drawn models by the printed code and by ``Plan.apply``."""
    cases = files.read(HERE / f"{name}-plans.json.gz")
    measured = {(row["name"], row["way"]): row for row in files.read(HERE / f"{name}-measured.json.gz")}
    timed = step_times(name)
    rows, counts = [], {way: [0, 0, 0] for way in ("code", "after", "before")}
    died = 0
    for case in cases:
        start, free = measured.get((case["name"], "start"), {}), measured.get((case["name"], "free"), {})
        died += "died" in start
        for way, count in counts.items():
            if (case["name"], way) not in measured:
                continue
            plan, row = case["plans"]["before" if way == "before" else "after"], measured[case["name"], way]
            runs = "died" not in row and "error" not in row and "peak_reserved" in row
            off = percent(row["peak_reserved"], plan["peak_reserved"]) if "peak_reserved" in row else None
            count[0] += 1
            count[1] += runs
            count[2] += off == 0.0
            # Times of many processes on one GPU say little: they are left out where each had it alone.
            slowdown = f"{row['seconds'] / free['seconds']:.2f}" if "seconds" in row and "seconds" in free and not timed else ""
            changes = "; ".join(change["after"] for change in plan["changes"])
            rows.append(
                f"| {case['name']} | {case['batch']} | {case['cap'] // MIB} | {'dies' if 'died' in start else 'runs'} | {way} | {changes} "
                f"| {'runs' if runs else 'fails' if 'error' in row else 'dies'} | {plan['peak_reserved'] // MIB} | {'' if off is None else f'{off:+.3f} %'} | {plan['slowdown']:.2f} | {slowdown} |"
            )
    summary = "; ".join(f"{way}: {runs} of {all_} run, {exact} with the peak to the byte" for way, (all_, runs, exact) in counts.items())
    what = f"{len(cases)} models of the sweep" if len(cases) > 1 else "One model"
    return [
        f"## {title}",
        "",
        f"{what} (`apply.py`), 20 steps in each way under the cap: the printed code, the plan applied and",
        f"the model then moved to the GPU (`after`), and the model moved first (`before`). Of the starts {died} die. {summary}.",
        *remarks,
        "",
        "| model | batch | cap, MiB | start | way | plan | result | reserved, MiB | reserved off | slowdown | measured |",
        "| --- | ---: | ---: | --- | --- | --- | --- | ---: | ---: | ---: | ---: |",
        *rows,
        "",
        *times_section(cases, timed),
    ]


def step_times(name):
    """The median of a way's counted steps, in seconds, where processes had the GPU one after another (`times.py`)."""
    path = HERE / f"{name}-times.json.gz"
    rows = files.read(path) if path.exists() else []
    return {(row["name"], row["way"]): statistics.median(row["seconds"]) for row in rows if row.get("seconds") and "died" not in row}


def times_section(cases, timed):
    """Predicted and measured times of the start and of the printed code."""
    rows, errors = [], {"start": [], "code": [], "last": [], "other": []}
    for case in cases:
        start, code = timed.get((case["name"], "start")), timed.get((case["name"], "code"))
        if start is None or code is None:
            continue
        plan = case["plans"]["after"]
        predicted = {"start": case["start"]["seconds"], "code": plan["seconds"], "slowdown": plan["slowdown"]}
        measured = {"start": start, "code": code, "slowdown": (code / start) * trained(case["start"]) / trained(plan)}
        off = {what: percent(predicted[what], measured[what]) for what in predicted}
        errors["start"].append(off["start"])
        errors["code"].append(off["code"])
        errors["last" if plan["settings"].get("channels_last") else "other"].append(off["slowdown"])
        rows.append(
            f"| {case['name']} | {1000 * predicted['start']:.1f} | {1000 * start:.1f} | {1000 * predicted['code']:.1f} | {1000 * code:.1f} "
            f"| {off['code']:+.0f} % | {predicted['slowdown']:.2f} | {measured['slowdown']:.2f} |"
        )
    if not rows:
        return []

    def summed(what):
        sizes = sorted(map(abs, errors[what]))
        return f"{statistics.median(sizes):.0f} % in the median, {sum(size <= 15 for size in sizes)} of {len(sizes)} within 15 %, the worst {sizes[-1]:.0f} %"

    return [
        "### Step times, one process at a time",
        "",
        f"{len(rows)} of these plans again (`times.py`): the start without the cap, and the printed code under it, each alone on the H200 with 2 threads on the CPU; the median of",
        "at least six steps. A step copies its batch from the CPU. Predictions are those of the draw. Off by:",
        "",
        f"- the start: {summed('start')}",
        f"- the printed code: {summed('code')}",
        f"- the slowdown of plans without channels last: {summed('other')}",
        f"- the slowdown of plans with channels last: {summed('last')}",
        "",
        "With channels last the printed code gives the images that layout on the CPU, which the predicted time does not count. The starts of regnet_x_16gf and",
        "regnet_x_32gf take less than half of what is predicted.",
        "",
        "| model | start predicted, ms | measured | code predicted, ms | measured | off | slowdown predicted | measured |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "",
    ]


def trained(setup):
    """How many samples a step trains on."""
    return setup["settings"]["batch"] * setup["settings"]["accumulate"]


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
