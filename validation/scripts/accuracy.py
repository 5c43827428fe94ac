"""The page docs/run-accuracy.md: measured and predicted peaks of every script, and how many agree."""

import json

import table

HEAD = """# How exact `vramfit run` is

Made by `validation/scripts/compare.py`; do not edit. Each script ran on an H200 (torch 2.11) in a process of its own, unchanged, with small
random data in the place of data sets and weights that would be downloaded (`validation/scripts/table.toml` has the arguments and says what is
made up). At its end the process wrote `max_memory_allocated` and `max_memory_reserved`, nothing else. `vramfit run --through-eval` answered
the same script without a GPU, with the cuDNN 9.19 that comes with torch.

Those called `drawn` were drawn at random (`validation/scripts/draw.py`) and predicted before they were measured; no rule was changed for them.
One of them, timm-resnetblur50, had no answer at first: a fault that UNet's trace had shown was mended before it was answered.

Those called `blind` are 50 short scripts of our own (`validation/scripts/blind.tar.xz`), written in one go and predicted before they were
measured. Those called `blind2` are 44 others, written by somebody else when the causes that the first list showed had been mended, with larger models. Those called `blind3` are 24 more, by a third author, when what `blind2` showed had been mended. Those called `blind4` are 40 more, by a fourth, after that; their
recordings were made before anything was measured, but first answered without a cuDNN, and once more with it (19 of 38 had their peak allocated to the byte, then 21; no rule changed). Those called `blind5` are 40 more, by a fifth, when an installed cuDNN named the plans of an H200; they were answered once, before they were measured. `bert_distill_small_student` draws
lengths without a seed, so its peak differs from run to run. Those called `blind6` are 40 more, by a sixth, who had seen neither the simulator nor the other lists: measured first,
with the figures kept from those who changed rules until all were answered once. `wgan_gp_faces` dies in its optimizer's constructor, on the GPU too. Answers of the other lists are those of the program before that,
except 38 scripts, most of which had not been exact: these were answered anew, 25 of them when pinned host memory and what the host gives back had rules. The tables
`As predicted` have what came out then; after that causes were read from the traces and mended, and all were asked again.
"""


def rows(path):
    """JSON lines by name."""
    with open(path) as file:
        return {row["name"]: row for row in map(json.loads, file)}


def difference(predicted, measured):
    return 100 * (predicted - measured) / measured


def inside(answer, key, measured):
    """Whether the measured value is in the answer's range, which is a point where the answer has none."""
    found = answer.get(key)
    low, high = (found["low"], found["high"]) if found else (answer[_PEAKS[key]], answer[_PEAKS[key]])
    return low <= measured <= high


_PEAKS = {"range": "peak_allocated", "reserved_range": "peak_reserved"}


def page(measured, answers, first):
    """The whole page; `first` has the answers of the blind scripts that were given before they were measured."""
    waiting = [part for part in table.BLIND if not any(name.startswith(f"{part}/") for name in measured)]
    scripts = [script for script in table.scripts() if script.part not in waiting]
    compared, problems = _held_together(scripts, measured, answers)
    parts = [HEAD]
    for title, chosen in (
        (None, lambda script: not script.is_drawn and not script.is_blind), ("The drawn scripts:\n", lambda script: script.is_drawn),
    ):
        parts += [title] if title else []
        parts.append(_summary(*([row for row in rows_ if chosen(row[0])] for rows_ in (compared, problems))))
    for part in waiting:
        count = sum(script.part == part for script in table.scripts())
        parts.append(f"`{part}`: {count} scripts by another author, predicted (`blind-answers.jsonl`) and not measured yet.\n")
    for part in table.BLIND:
        if part in waiting:
            continue
        blind = [script for script in scripts if script.part == part]
        before = _held_together(blind, measured, first)
        parts += [f"The scripts called `{part}`. As predicted:\n", _summary(*before)]
        parts += [f"{script.name} was without: {reason}.\n" for script, reason in before[1]]
        parts += ["After mending:\n", _summary(*_held_together(blind, measured, answers))]
    parts.append(
        "| script | source | measured allocated | predicted | difference | measured reserved | predicted | difference | exact said | inside |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |\n" + "\n".join(_line(*row) for row in compared) + "\n"
    )
    if problems:
        lines = [f"| {script.name} | {reason} |" for script, reason in problems]
        parts.append("## Not compared\n\n| script | why |\n| --- | --- |\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _held_together(scripts, measured, answers):
    """The scripts with measurement and answer, and those without one of them with the reason."""
    compared, problems = [], []
    for script in scripts:
        real, answer = measured.get(script.name), answers.get(script.name)
        reason = _unusable(script, real)
        if reason is None and (answer is None or "error" in answer):
            reason = f"no answer: {_cell(answer)}"
        if reason:
            problems.append((script, reason))
        else:
            compared.append((script, real, answer))
    return compared, problems


def _unusable(script, real):
    """Why a measurement cannot be compared, or nothing."""
    if real is None:
        return "not measured"
    if real["status"] != 0:
        return f"the measurement ended with status {real['status']}"
    if real["arguments"] != script.arguments:
        return "measured with other arguments"
    return None if real["cuda"] else "never reached the GPU"


def _cell(answer):
    return "not asked" if answer is None else answer["error"].replace("|", "/")[:160]


def _summary(compared, problems):
    if not compared:
        return "Nothing was compared.\n"
    allocated = [difference(answer["peak_allocated"], real["peak_allocated"]) for _, real, answer in compared]
    reserved = [difference(answer["peak_reserved"], real["peak_reserved"]) for _, real, answer in compared]
    said = [(real, answer) for _, real, answer in compared if answer["exact"]]
    wrong = [1 for real, answer in said if answer["peak_allocated"] != real["peak_allocated"] or answer["peak_reserved"] != real["peak_reserved"]]
    within = [inside(answer, "range", real["peak_allocated"]) for _, real, answer in compared]
    within_reserved = [inside(answer, "reserved_range", real["peak_reserved"]) for _, real, answer in compared]
    count = len(compared)
    public = sum(1 for script, _, _ in compared if script.repository)
    rows_ = [
        ("scripts compared", f"{count}, {public} of them from public repositories"),
        ("scripts without a comparison", str(len(problems))),
        ("peak allocated to the byte", _share(sum(value == 0 for value in allocated), count)),
        ("peak allocated within 1 %", _share(sum(abs(value) <= 1 for value in allocated), count)),
        ("worst peak allocated", f"{max(allocated, key=abs):+.2f} %"),
        ("peak reserved to the byte", _share(sum(value == 0 for value in reserved), count)),
        ("peak reserved within 2 %", _share(sum(abs(value) <= 2 for value in reserved), count)),
        ("worst peak reserved", f"{max(reserved, key=abs):+.2f} %"),
        ("said exact, and wrong", f"{len(wrong)} of {len(said)}"),
        ("measured allocated inside the answer's range", _share(sum(within), count)),
        ("measured reserved inside the answer's range", _share(sum(within_reserved), count)),
    ]
    return "| | |\n| --- | ---: |\n" + "\n".join(f"| {name} | {value} |" for name, value in rows_) + "\n"


def _share(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.0f} %)"


def _line(script, real, answer):
    source = script.source if script.repository is None else f"[{script.repository}](https://github.com/{script.repository}/blob/{script.commit}/{script.path})"
    name = script.name.partition("/")[2]
    kind = f"{script.part}: " if script.is_drawn or script.is_blind else ""
    cells = [f"{kind}{name}", source]
    for peak in ("peak_allocated", "peak_reserved"):
        value = difference(answer[peak], real[peak])
        cells += [f"{real[peak]:,}", f"{answer[peak]:,}", "0" if value == 0 else f"{value:+.3f} %"]
    held = [inside(answer, "range", real["peak_allocated"]), inside(answer, "reserved_range", real["peak_reserved"])]
    cells += ["yes" if answer["exact"] else "no", {(True, True): "yes", (True, False): "allocated only", (False, True): "reserved only"}.get(tuple(held), "no")]
    return "| " + " | ".join(cells) + " |"
