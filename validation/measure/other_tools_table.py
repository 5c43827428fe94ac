"""Makes the table of other tools in docs/several-gpus.md and its Chinese twin.

    python3 validation/measure/other_tools_table.py [--check]
    python3 validation/measure/other_tools_table.py --cases      # prints every figure instead

It reads what the tools said (validation/measured/other-tools.jsonl), what was measured, and from docs/parallel-accuracy.md what vramfit says.
"""

import gzip
import json
import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "validation/measured"
ACCURACY = ROOT / "docs/parallel-accuracy.md"
# What is between these lines of a page is written.
BEGIN, END = "<!-- other tools -->\n", "<!-- end of other tools -->\n"
PAGES = {
    "docs/several-gpus.md": (
        "| | cases | its figure includes | nearest, median, farthest | vramfit on these cases |\n| --- | --- | --- | ---: | --- |",
        "{exact} of {count} to the byte",
        0,
    ),
    "docs/several-gpus.zh-CN.md": (
        "| | 用例 | 数字包括什么 | 最近、中位、最远 | vramfit 在这些用例上 |\n| --- | --- | --- | ---: | --- |",
        "{count} 个中 {exact} 个精确到字节",
        1,
    ),
}
# By tool: its name, which cases, and what its figure includes, in both languages.
TOOLS = {
    "FSDPMemTracker on an H200": (
        ("PyTorch's `FSDPMemTracker`, on the GPU", "PyTorch 的 `FSDPMemTracker`，在 GPU 上"),
        ("{count} of `fsdp2`", "`fsdp2` {count} 个"),
        ("all active bytes of two real steps", "两步真实训练的全部活动字节"),
    ),
    "FSDPMemTracker without a GPU": (
        ("the same with fake tensors of the CPU", "同一工具，用 CPU 的 fake tensor"),
        ("{count} of `fsdp2`", "`fsdp2` {count} 个"),
        ("the same, of the CPU's operators, without rounding", "同上，但按 CPU 的算子，不取整"),
    ),
    "estimate_zero2_model_states_mem_needs": (
        ("DeepSpeed's `estimate_zero2_model_states_mem_needs`", "DeepSpeed 的 `estimate_zero2_model_states_mem_needs`"),
        ("{count} of `deepspeed:2`", "`deepspeed:2` {count} 个"),
        ("weights, gradients and optimizer states", "权重、梯度和优化器状态"),
    ),
    "estimate_zero3_model_states_mem_needs": (
        ("DeepSpeed's `estimate_zero3_model_states_mem_needs`", "DeepSpeed 的 `estimate_zero3_model_states_mem_needs`"),
        ("{count} of `deepspeed:3`", "`deepspeed:3` {count} 个"),
        ("the same, and the largest layer's weights", "同上，加最大一层的权重"),
    ),
    "SimuMax": (
        ("SimuMax, its ZeRO 1", "SimuMax 的 ZeRO 1"),
        ("{count} of `deepspeed:1`, Llama in half precision", "`deepspeed:1` {count} 个，半精度 Llama"),
        ("model states and activations as Megatron has them; no bucket", "Megatron 的模型状态和激活值；没有桶"),
    ),
    "SimuMax, other recipe": (
        ("SimuMax, other ways", "SimuMax，其他方式"),
        ("{count} of `ddp`, `zero1` and `tp`, Llama in bf16", "`ddp`、`zero1`、`tp` {count} 个，bf16 Llama"),
        (
            "the same, with master weights and Adam in fp32, which these trainings do not have",
            "同上，含 fp32 主权重和 Adam 状态，而这些训练没有",
        ),
    ),
}


def read():
    """By tool: (case, said, measured), and what the tool could not do."""
    measured = json.load(gzip.open(MEASURED / "measured.json.gz"))["cases"]
    known, failed = {}, {}
    for line in (MEASURED / "other-tools.jsonl").read_text().splitlines():
        row = json.loads(line)
        case = row["case"]
        if not isinstance(row["peak"], int):
            failed.setdefault(row["tool"], []).append((case, row["peak"]))
        elif case in measured:
            known.setdefault(row["tool"], []).append((case, row["peak"], measured[case]["peak_allocated"]))
    return known, failed


def exact_cases():
    """The cases whose measured peak vramfit gives to the byte."""
    return {case for case, sign in re.findall(r"^(\S+) +peak +[+-](\S+) %", ACCURACY.read_text(), re.MULTILINE) if sign == "0.0000"}


def table(known, page):
    header, own, language = PAGES[page]
    exact = exact_cases()
    lines = [header]
    for tool, (name, cases, includes) in TOOLS.items():
        rows = known[tool]
        errors = sorted((100 * (said - truth) / truth for _, said, truth in rows), key=abs)
        spread = [errors[0], median(abs(error) for error in errors), errors[-1]]
        figures = f"{spread[0]:+.1f} %, {spread[1]:.1f} %, {spread[2]:+.1f} %"
        told = own.format(exact=sum(case in exact for case, _, _ in rows), count=len(rows))
        columns = (name[language], cases[language].format(count=len(rows)), includes[language], figures, told)
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def main():
    known, failed = read()
    if "--cases" in sys.argv:
        for tool, rows in known.items():
            for case, said, truth in rows:
                print(f"{tool:40} {case:36} measured {truth:12} said {said:12} {100 * (said - truth) / truth:+8.2f} %")
        for tool, rows in failed.items():
            for case, why in rows:
                print(f"{tool:40} {case:36} {why}")
        return
    for page in PAGES:
        path = ROOT / page
        before, rest = path.read_text().split(BEGIN)
        after = rest.split(END)[1]
        text = before + BEGIN + "\n" + table(known, page) + "\n" + END + after
        if "--check" not in sys.argv:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{page} differs from what was measured: run validation/measure/other_tools_table.py")


if __name__ == "__main__":
    main()
