"""Plans for four GPUs, run on one: the first rank, the printed code as it is, under the limit that the plan was made for.

    python3 plans.py make --binary vramfit --out scripts        # on any machine: asks for plans and writes a script for each
    python3 plans.py run scripts --out measured.jsonl           # on a machine with a GPU
    python3 plans.py table measured.jsonl > ../../docs/several-gpus-plans.md

PyTorch's fake process group stands for the other ranks (`../scripts/shim`). Each script runs 20 steps in a process of its own.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
GPUS, STEPS = 4, 20
# Model, batch of a GPU, sequence length, further flags, the share of what the start reserves that is left, how the start is spread, and what no plan may change.
STARTS = [
    ("gpt2-no-cache", 8, 256, [], 0.7),
    ("gpt2-medium", 2, 256, [], 0.55),
    ("llama-160m", 4, 512, [], 0.6),
    ("llama-no-cache", 8, 256, ["--dtype", "bf16"], 0.75),
    ("llama-1b", 1, 512, ["--dtype", "bf16"], 0.5),
    ("qwen2-0.5b", 2, 256, [], 0.55),
    ("bert-base", 16, 128, [], 0.6),
    ("bert-large", 4, 128, [], 0.5),
    ("roberta-base", 8, 128, [], 0.65),
    ("opt-125m", 4, 256, [], 0.7),
    ("phi-1", 1, 256, [], 0.5),
    ("mistral-window", 2, 256, ["--dtype", "bf16"], 0.6),
    ("vit-hf", 32, None, [], 0.8),
    ("t5-small", 8, 128, [], 0.7),
    ("gpt2-no-cache", 8, 256, ["--dtype", "bf16"], 0.6, "deepspeed:1"),
    ("llama-160m", 4, 512, ["--dtype", "bf16"], 0.6, "deepspeed:1"),
    ("qwen2-0.5b", 2, 256, ["--dtype", "bf16"], 0.5, "deepspeed:2"),
    ("llama-1b", 1, 512, ["--dtype", "bf16"], 0.75, "deepspeed:2"),
    ("bert-large", 4, 128, [], 0.7, "deepspeed:2"),
    ("t5-small", 8, 128, [], 0.4, "deepspeed:1"),
    # So little that only weights on the CPU will do.
    ("llama-1b", 1, 512, ["--dtype", "bf16"], 0.25, "ddp", "dtype,seq,batch"),
    ("gpt2-medium", 2, 256, [], 0.25, "ddp", "dtype,amp,seq,batch"),
    ("bert-large", 4, 128, [], 0.25, "ddp", "dtype,amp,seq,batch"),
    ("qwen2-0.5b", 1, 128, [], 0.3, "ddp", "dtype,amp,seq,batch"),
    # DDP again, from which the search also tries ZeRO: of what it finds, only plans with ZeRO run.
    ("llama-small", 8, 256, ["--dtype", "bf16"], 0.6, "ddp to ZeRO"),
    ("llama-small", 8, 256, [], 0.5, "ddp to ZeRO"),
    ("opt", 8, 128, [], 0.6, "ddp to ZeRO"),
    ("opt", 8, 128, [], 0.5, "ddp to ZeRO"),
    ("mistral", 4, 256, [], 0.6, "ddp to ZeRO"),
    ("mistral", 4, 256, [], 0.5, "ddp to ZeRO"),
    ("qwen2", 4, 128, ["--dtype", "bf16"], 0.75, "ddp to ZeRO"),
    ("bert-mlm", 16, 128, [], 0.4, "ddp to ZeRO"),
    ("electra-mlm", 16, 128, [], 0.7, "ddp to ZeRO"),
]
PRELUDE = """import json, os, sys
if {conf!r}:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = {conf!r}
sys.path.insert(0, {validation!r} if os.path.isdir({validation!r}) else os.environ["CASES"])
import torch
from dataclasses import replace
from cases import CASES, DTYPES, MODELS, make_inputs
entry = MODELS[{model!r}]
case = replace(next(case for case in CASES.values() if case.model == {model!r}), batch={batch}, seq={seq})
torch.manual_seed(0)
model = entry.build("cpu", False)
if {dtype!r} != "none":
    model = model.to(DTYPES[{dtype!r}])
model.train()
inputs, targets = make_inputs(entry, case, False)
if targets is not None:
    sys.exit("the model's loss is not its own")
torch.cuda.init()
total = torch.cuda.get_device_properties(0).total_memory
torch.cuda.set_per_process_memory_fraction(min(1.0, ({cap} + 0.5) / total), 0)


def stream():
    moved = {{name: tensor.to("cuda") for name, tensor in inputs.items()}}
    for _ in range({count}):
        yield moved


batches = stream()
if {file!r}:
    import tempfile

    os.chdir(tempfile.mkdtemp())
    open("ds_config.json", "w").write({file!r})
"""
EPILOGUE = """
torch.cuda.synchronize()
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
"""


def ask(binary, *arguments):
    done = subprocess.run([str(binary), *[str(one) for one in arguments], "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def make(given):
    """For each start: its own code, and that of the recommended plan and of the first plan of each other group."""
    given.out.mkdir(parents=True, exist_ok=True)
    for model, batch, seq, flags, share, *way in STARTS[given.first :]:
        way, kept = [*way, *["ddp", ""][len(way) :]]
        way, _, wanted = way.partition(" to ")
        capture = HERE.parent / "captures" / f"{model}.vramfit"
        sizes = ["--batch", batch, *(["--seq", seq] if seq else []), *flags]
        spread = ["--parallel", way, "--world", GPUS]
        reserved = ask(given.binary, "estimate", capture, *sizes, *spread)["peak_reserved"]
        cap = int(reserved * share) >> 21 << 21
        asked = ["--gpus", GPUS, "--link", "nvlink"] if way == "ddp" else spread
        kept = ["--keep", kept] if kept else []
        answer = ask(given.binary, "plan", capture, *sizes, *asked, *kept, "--vram", cap)
        groups, chosen = set(), []
        for plan in answer["plans"]:
            if wanted and not plan["settings"]["parallel"].startswith("deepspeed:"):
                continue
            if plan["group"] not in groups and len(chosen) < 3:
                groups.add(plan["group"])
                chosen.append(plan)
        dtype = flags[flags.index("--dtype") + 1] if "--dtype" in flags else "none"
        start = {**answer["start"], "changes": []}
        for number, plan in enumerate([start, *chosen]):
            settings = plan["settings"]
            rows = {"conf": settings["alloc_conf"], "file": plan.get("deepspeed", ""), "model": model, "dtype": dtype, "validation": str(HERE.parent), "cap": cap, "batch": settings["batch"], "seq": settings["sizes"].get("seq", seq)}
            text = PRELUDE.format(count=STEPS * settings["accumulate"], **rows) + plan["code"] + EPILOGUE
            name = f"{model}{'' if way == 'ddp' else '-' + way.replace(':', '')}{'-zero' if wanted else ''}-{round(100 * share)}-{'start' if number == 0 else number}"
            (given.out / f"{name}.py").write_text(text)
            facts = {"name": name, "model": model, "cap": cap, "predicted": plan["peak_reserved"], "is_start": number == 0}
            facts["what"] = f"{settings['parallel']}, batch {settings['batch']} a GPU" if number == 0 else "; ".join(change["after"] for change in plan["changes"])
            (given.out / f"{name}.json").write_text(json.dumps(facts))
        print(model, f"{cap >> 20} MiB", len(chosen), "plans", flush=True)


def measured(script, threads):
    """One script's row."""
    facts = json.loads(script.with_suffix(".json").read_text())
    shim = HERE.parent / "scripts" / "shim"
    paths = os.pathsep.join(filter(None, [str(shim), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "MADE_UP_WORLD": str(GPUS), "HF_HUB_OFFLINE": "1", "CASES": str(HERE.parent), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode == 0 and lines:
        return {**facts, **json.loads(lines[-1])}
    is_memory = "OutOfMemoryError" in done.stderr or "out of memory" in done.stderr
    return {**facts, "died": "out of memory" if is_memory else done.stderr.strip()[-800:]}


def run(given):
    scripts = sorted(given.scripts.glob("*.py"))
    # Updates on the CPU wait for each other's threads where there are more than cores.
    threads = max(1, os.cpu_count() // given.jobs)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool, open(given.out, "w") as out:
        for row in pool.map(measured, scripts, itertools.repeat(threads)):
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(row["name"], row.get("reserved"), row.get("died", "")[-300:], flush=True)


def table(given):
    rows = [json.loads(line) for line in given.measured.read_text().splitlines()]
    plans, starts = [row for row in rows if not row["is_start"]], [row for row in rows if row["is_start"]]
    ran = [row for row in plans if "reserved" in row]
    equal = sum(row["reserved"] == row["predicted"] for row in ran)
    worst = max((abs(row["reserved"] / row["predicted"] - 1) for row in ran), default=0)
    died = sum(row.get("died") == "out of memory" for row in starts)
    lived = [row["model"] for row in starts if "reserved" in row]
    print("# Plans for four GPUs under their limits\n")
    print("Made by `validation/spread_plans/plans.py`. Each start is DDP or DeepSpeed on four GPUs under a limit that is too small for it. The printed code of the")
    print("recommended plan, and of the first of each other group, ran on an H200 as rank 0 of four: 20 steps in a process of its own, the limit set by")
    print("`set_per_process_memory_fraction`, PyTorch's fake process group for the other ranks. NCCL was not there. In a first run the 11 plans with")
    print("autocast failed: their code gave autocast an object where PyTorch takes a name. The code was mended, and all ran again.")
    print("DeepSpeed's plans and those with weights on the CPU were added later and ran once. So were plans from DDP to ZeRO: of what `plan --gpus 4` finds, those with ZeRO, for models and limits at which it finds one.\n")
    print(f"{len(ran)} of {len(plans)} plans run; {died} of {len(starts)} starts die of memory. Reserved memory is as predicted in {equal} of {len(ran)}, the worst off by {worst:.2%}.")
    if lived:
        print(f"The start of {', '.join(lived)} fits after all, by giving cached memory back: `plan` says so of it.")
    print()
    print("| model | limit | plan | reserved, predicted | measured |\n| --- | ---: | --- | ---: | ---: |")
    for row in rows:
        found = f"{row['reserved'] >> 20} MiB" if "reserved" in row else "**dies**" if row["died"] == "out of memory" else "**fails**"
        print(f"| {row['model']} | {row['cap'] >> 20} MiB | {'the start: ' if row['is_start'] else ''}{row['what']} | {row['predicted'] >> 20} MiB | {found} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("--binary", type=pathlib.Path, required=True)
    making.add_argument("--out", type=pathlib.Path, required=True)
    making.add_argument("--first", type=int, default=0, metavar="N", help="leave out the first N starts")
    making.set_defaults(call=make)
    running = commands.add_parser("run")
    running.add_argument("scripts", type=pathlib.Path)
    running.add_argument("--out", type=pathlib.Path, required=True)
    running.add_argument("--jobs", type=int, default=8)
    running.set_defaults(call=run)
    tabling = commands.add_parser("table")
    tabling.add_argument("measured", type=pathlib.Path)
    tabling.set_defaults(call=table)
    given = parser.parse_args()
    given.call(given)


if __name__ == "__main__":
    main()
