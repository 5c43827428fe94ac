"""Plans for a Llama of 7 billion parameters on a small GPU, run as printed under the cap they were made for.

    vramfit plan llama-7b --vram 11GiB --batch 1 --seq 512 --json > plan.json
    python3 validation/plan/qlora.py --plan plan.json --cap-gib 11 --seq 512 --out "$OUT/qlora.json"

The first plan's printed code trains 20 steps with random weights, in a fresh process; so does the second, and so on. Needs a
CUDA GPU, transformers, peft and bitsandbytes, and 40 GB of host memory.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

STEPS = 20
CONFIG = {"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32}
HEADS = {"num_attention_heads": 32, "num_key_value_heads": 32}


def one(job):
    """In the child: the model with arbitrary weights, then the printed code."""
    settings = job["settings"]
    if settings["alloc_conf"]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings["alloc_conf"]
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    layers = {"num_hidden_layers": job["layers"]} if job["layers"] else {}
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**{**CONFIG, **HEADS, **layers})).to(torch.bfloat16)
    model = model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.requires_grad_(True).data.fill_(0.01)
    for module in model.modules():
        # What construction on the meta device left without values.
        if hasattr(module, "inv_freq"):
            module.inv_freq = torch.ones_like(module.inv_freq, device="cpu")
    if job["device"] == "cuda":
        torch.cuda.init()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, (job["cap"] + 0.5) / total), 0)

    def batches():
        """On the GPU once the model is there."""
        ids = torch.randint(0, 32000, (settings["sizes"]["batch"], settings["sizes"]["seq"])).to(job["device"])
        for _ in range(job["steps"] * settings["accumulate"]):
            yield {"input_ids": ids, "labels": ids}

    code = job["code"].replace('device = "cuda"', f'device = "{job["device"]}"')
    began = time.time()
    try:
        exec(compile(code, "plan.py", "exec"), {"model": model, "batches": batches()})  # noqa: S102 - the printed code
        result = {"ran": True}
    except torch.OutOfMemoryError as error:
        result = {"ran": False, "error": str(error)[:200]}
    if job["device"] == "cuda":
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        result.update(
            peak_allocated=stats["allocated_bytes.all.peak"],
            peak_reserved=stats["reserved_bytes.all.peak"],
            retries=stats["num_alloc_retries"],
        )
    return {**result, "seconds": round(time.time() - began, 2)}


def main():
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(json.load(sys.stdin))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--cap", type=int, required=True, help="bytes that PyTorch may reserve")
    parser.add_argument("--count", type=int, default=3, help="how many of the plans")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--layers", type=int, help="fewer layers, for a CPU")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    answer = json.loads(given.plan.read_text())
    runs = []
    for name, plan in [("start", answer["start"]), *((str(n), plan) for n, plan in enumerate(answer["plans"][: given.count]))]:
        job = {
            "settings": plan["settings"],
            "code": plan["code"],
            "cap": given.cap,
            "device": given.device,
            "layers": given.layers,
            "steps": given.steps,
        }
        command = [sys.executable, __file__, "--one"]
        done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, timeout=300)
        try:
            found = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            found = {"error": done.stderr[-600:]}
        predicted = {key: plan.get(key) for key in ("peak_allocated", "peak_reserved")}
        runs.append({"name": name, "changes": [change["after"] for change in plan.get("changes", [])], "predicted": predicted, **found})
        print(runs[-1], flush=True)
    given.out.write_text(json.dumps({"model": answer["model"], "cap": given.cap, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
