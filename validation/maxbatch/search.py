"""Finds the largest batch that runs three steps under a cap, by trial, each trial in its own process.

    python3 validation/maxbatch/search.py --out "$OUT/maxbatch.json" --jobs 12

A search doubles the batch until a run fails, bisects between the last that ran and the first that failed, and then tries the
batches around the boundary one by one: four above it and three below. Every trial is recorded. Searches run in parallel; a cap
on what PyTorch may reserve keeps them independent. `--device cpu --tiny` only shows that the script runs: there, every batch
above nine counts as failed.
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))

import fork_pool  # noqa: E402

fork_pool.prepare_environment()

MIB = 1024 * 1024
ABOVE, BELOW = 4, 3
MOST = 1 << 14
TINY_LIMIT = 9

# case of validation/cases: cap in MiB
PAIRS = [
    ("bert-small", 1200),
    ("bert-small", 2000),
    ("bert-small-odd", 700),
    ("bert-small-amp-bf16", 900),
    ("bert-small-checkpoint", 800),
    ("bert-small-accumulate-amp", 800),
    ("gpt2-small", 3000),
    ("gpt2-small-amp-bf16", 2600),
    ("gpt2-checkpoint-amp", 2200),
    ("llama-small", 2600),
    ("llama-small-bf16", 1500),
    ("llama-checkpoint-bf16", 1300),
    ("t5", 2400),
    ("distilbert", 900),
    ("electra", 700),
    ("encoder-post", 500),
    ("qwen3-bf16", 600),
    ("residual-adam", 620),
    ("residual-adam-fused", 640),
    ("mixed", 300),
    ("mlp-odd", 96),
    ("resnet18", 1000),
    ("resnet18-bf16", 900),
    ("resnet50-amp", 1600),
    ("unet", 600),
    ("lstm", 320),
    ("gru", 400),
    ("convnext-tiny", 1200),
]

# Chosen before any of them was tried. Of deeplab nothing is known: its batch norms refuse a batch of one.
BLIND = [
    ("llama-1b-bf16", 16384),
    ("gpt2", 12288),
    ("bert-base", 8192),
    ("vgg16-bn", 8192),
    ("vit-b-16", 6144),
    ("resnet50", 6144),
    ("deeplab", 6144),
    ("distilbert-base-fused", 5120),
    ("densenet121-amp", 5120),
    ("maxvit-t", 5120),
    ("efficientnet-b0", 4096),
    ("swin-t-amp", 4096),
    ("mistral", 4096),
    ("mobilenet-v3", 3072),
    ("vit-hf", 3072),
    ("regnet-y", 3072),
    ("roberta", 3072),
    ("opt", 2560),
    ("whisper-bf16", 2560),
    ("lstm-bidirectional", 2048),
    ("gru-deep-amp", 2048),
    ("unet-amp", 2048),
]

# Chosen after the rules and trees stood, before any of them was tried: none is of a case above. Of resnet50-channels-last and
# unet-channels-last nothing is said: their captures have no batch to choose.
FRESH = [
    ("mobilenet-v2", 3072),
    ("googlenet", 3072),
    ("resnext50", 4096),
    ("squeezenet", 2048),
    ("mnasnet", 2048),
    ("alexnet", 2048),
    ("vgg11", 6144),
    ("convnext-hf", 2048),
    ("resnet50-channels-last-amp", 4096),
    ("efficientnet-v2-s", 4096),
    ("r3d-18", 6144),
    ("unet-channels-last-amp", 2048),
    ("rnn", 512),
    ("swin-t", 4096),
    ("vit-b-16-bf16", 6144),
    ("bert-mlm", 2560),
    ("roberta-base-adamw", 8192),
    ("opt-125m-amp", 4096),
    ("pythia-160m-accumulate", 6144),
    ("t5-small-adamw", 3072),
    ("electra-mlm-bf16", 2048),
    ("bert-large-checkpoint-amp", 8192),
    ("qwen2-0.5b-bf16", 8192),
    ("gpt2-medium-checkpoint", 10240),
    ("llama-160m-bf16", 4096),
]

# Chosen after the series of layers stood (`workspace_grid/dense.py`), before any of them was tried: cases of none of the lists above, then some of theirs under
# another cap.
LATER = [
    ("convnext-tiny-amp", 2048),
    ("decoder", 1024),
    ("decoder-amp", 1024),
    ("densenet121", 3072),
    ("efficientnet-b0-amp", 3072),
    ("fcn", 4096),
    ("fcn-amp", 3072),
    ("lraspp", 2048),
    ("mobilenet-v3-amp", 2048),
    ("resnet18-amp-large", 3072),
    ("resnet50-accumulate", 4096),
    ("resnet50-checkpoint", 3072),
    ("resnext50-amp", 3072),
    ("shufflenet", 2048),
    ("signal", 1024),
    ("vgg11-amp", 4096),
    ("vit-b-16-amp", 4096),
    ("whisper", 3072),
    ("gru-bf16", 512),
    ("lstm-amp", 512),
    ("alexnet", 3072),
    ("resnet18", 2048),
    ("googlenet", 2048),
    ("mobilenet-v2", 2048),
    ("squeezenet", 3072),
    ("vgg11", 4096),
    ("r3d-18", 4096),
    ("resnet50", 3072),
    ("efficientnet-v2-s", 3072),
    ("regnet-y", 2048),
]

# Chosen when all of this stood and no plan was any more in doubt, before any of them was tried: architectures and settings that
# are in none of the lists above (`cases/unseen.py`). The batch norms of deeplab-mobile refuse a batch of one.
AFTER = [
    ("albert", 4096),
    ("deberta-v2-amp", 3072),
    ("xlnet-adam", 2048),
    ("mpnet-adafactor", 3072),
    ("bart-clip", 4096),
    ("bloom-amp-fp16", 4096),
    ("gemma2-bf16-fused", 3072),
    ("phi3-accumulate-amp", 3072),
    ("olmo2-checkpoint-bf16", 2048),
    ("gpt-neo-momentum", 3072),
    ("falcon-adam-fused", 3072),
    ("deit-amp", 3072),
    ("beit", 4096),
    ("segformer", 3072),
    ("convnextv2-fused", 2048),
    ("mobilevit-amp-fp16", 3072),
    ("swin-v2-t-amp", 4096),
    ("wide-resnet50", 6144),
    ("inception-v3", 5120),
    ("resnet34-accumulate-amp", 3072),
    ("regnet-x-amp", 3072),
    ("deeplab-mobile", 3072),
    ("mc3-18-adam", 3072),
    ("r2plus1d-18-amp", 3072),
    ("adversary", 2048),
    ("denoiser-amp", 3072),
    ("temporal-clip", 1024),
    ("mixer-adafactor", 2048),
    ("tutorial-lm-momentum", 2048),
    ("tagger-nesterov", 512),
    ("vae", 1024),
    ("small-gpt-fused-accumulate", 4096),
    ("recommender-adagrad", 160),
    ("translator", 1024),
]

# Where the model itself refuses smaller batches.
LEAST = {"deeplab-mobile": 2}


def trial(case_name, batch, cap, device="cuda", tiny=False):
    """One run at this batch: whether it died, and its peaks."""
    import measure
    import torch
    from meter import Meter

    from cases import CASES, MODELS
    from dataclasses import replace

    torch.set_num_threads(1)
    case = replace(CASES[case_name], batch=batch)
    if tiny:
        case = replace(case, seq=8 if case.seq else None)
    result = {"batch": batch, "died": None}
    if device == "cuda":
        torch.cuda.init()
        measure.set_cap(cap)
    phase = Meter(device)
    try:
        if device == "cpu" and batch > TINY_LIMIT:
            raise RuntimeError("out of memory, for a test")
        measure.run(case, MODELS[case.model], device, tiny, "plain", phase, 3)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        result["died"] = {"text": str(error)[:300], "phase": len(phase.phases)}
    if device == "cuda":
        stats = torch.cuda.memory_stats()
        result["retries"] = stats.get("num_alloc_retries")
    return {**result, **phase.peaks()}


class Search:
    def __init__(self, case, cap, device, tiny, deadline):
        self.case, self.cap, self.device, self.tiny, self.deadline = case, cap, device, tiny, deadline
        self.trials = {}

    def runs(self, batch):
        """Whether a batch runs; None where time is up or the trial failed for another reason."""
        if batch not in self.trials:
            if time.time() > self.deadline:
                return None
            arguments = {"case_name": self.case, "batch": batch, "cap": self.cap, "device": self.device, "tiny": self.tiny}
            job = {"name": "trial", "call": "search:trial", "arguments": arguments}
            self.trials[batch] = fork_pool.run([job], 1, 60, self.device)["trial"]
        found = self.trials[batch]
        return None if "error" in found else found["died"] is None

    def boundary(self):
        """A batch that runs beside the next one, which dies; None where time is up."""
        low, high = LEAST.get(self.case, 1) - 1, LEAST.get(self.case, 1)
        while (does := self.runs(high)) and high < MOST:
            low, high = high, 2 * high
        if does is not False:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            does = self.runs(middle)
            if does is None:
                return None
            low, high = (middle, high) if does else (low, middle)
        return low

    def answer(self):
        found = self.boundary()
        if found is None:
            return None
        for batch in range(found + 2, found + ABOVE + 1):
            self.runs(batch)
        batch = found - 1
        # Where a smaller one dies, what counts is below it.
        while batch > max(found - BELOW - 1, LEAST.get(self.case, 1) - 1):
            does = self.runs(batch)
            if does is False:
                found = batch - 1
            batch -= 1
        return found


def search(case, cap, device, tiny, deadline, batches=None):
    """With `batches` only these are tried: where a prediction says that one dies below the boundary."""
    one = Search(case, cap, device, tiny, deadline)
    found = None
    if batches:
        for batch in batches:
            one.runs(batch)
    else:
        found = one.answer()
    return {"case": case, "cap": cap, "max_batch": found, "trials": [one.trials[batch] for batch in sorted(one.trials)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", default="", help="cases with commas between")
    parser.add_argument("--blind", action="store_true", help="the second list")
    parser.add_argument("--fresh", action="store_true", help="the third list")
    parser.add_argument("--later", action="store_true", help="the fourth list")
    parser.add_argument("--after", action="store_true", help="the fifth list")
    parser.add_argument("--batches", help="CASE@MIB:N,N,… with spaces between: only these batches")
    parser.add_argument("--deadline", type=int, default=260, help="seconds after which no trial is begun")
    given = parser.parse_args()
    from measure import environment, imports  # noqa: F401

    imports()
    began = time.time()
    asked = {"name": "environment", "call": "measure:environment", "arguments": {"device": given.device}}
    result = {"environment": fork_pool.run([asked], 1, 60, given.device)["environment"], "searches": []}
    jobs = []
    wanted = {}
    for text in (given.batches or "").split():
        pair, batches = text.split(":")
        case, cap = pair.split("@")
        wanted[case, int(cap)] = [int(batch) for batch in batches.split(",")]
    # What stood when the pairs were chosen (`max_batch.rs`).
    pairs, chosen = next(
        (listed for is_given, *listed in [
            (given.after, AFTER, {"chosen": "after-plans"}),
            (given.later, LATER, {"chosen": "after-series"}),
            (given.fresh, FRESH, {"chosen": "after-trees"}),
            (given.blind, BLIND, {}),
        ] if is_given),
        (PAIRS, {}),
    )
    for case, cap in wanted or pairs:
        if given.only and case not in given.only.split(","):
            continue
        arguments = {"case": case, "cap": cap * MIB, "device": given.device, "tiny": given.tiny}
        arguments["deadline"] = began + given.deadline
        arguments["batches"] = wanted.get((case, cap))
        jobs.append({"name": f"{case}@{cap}", "call": "search:search", "arguments": arguments})

    def report(name, answer, done, total):
        text = answer.get("error") or f"{answer['max_batch']} in {len(answer['trials'])} trials"
        print(f"{time.time() - began:.0f} s {done}/{total} {name}: {text}", flush=True)
        result["searches"].append({"name": name, **chosen, **answer})
        given.out.write_text(json.dumps(result, separators=(",", ":")))

    fork_pool.run(jobs, given.jobs, given.deadline + 60, given.device, report, began + given.deadline)


if __name__ == "__main__":
    main()
