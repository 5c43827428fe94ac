"""Records traces of single batches under a cap: which cuDNN plans did not fit, and which was used instead.

    python3 validation/maxbatch/trace_capped.py --out FOLDER --jobs 12 "unet@600:20,22" "resnet18@1000:110"

Writes CASE@MIB-BATCH.json.gz, as `measure.py --trace` does; failed requests are events `o`. `--device cpu --tiny` only shows that
the script runs.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure"))

import fork_pool  # noqa: E402

fork_pool.prepare_environment()
MIB = 1024 * 1024


def traced(case_name, batch, cap, device="cuda", tiny=False):
    import measure
    import torch
    from meter import Meter

    from cases import CASES, MODELS

    torch.set_num_threads(1)
    case = replace(CASES[case_name], batch=batch)
    result = {"case": case_name, "batch": batch, "cap": cap, "died": None}
    tracer = None
    if device == "cuda":
        from trace_events import Tracer

        torch.cuda.init()
        measure.set_cap(cap)
        tracer = Tracer()
    phase = Meter(device, tracer)
    try:
        measure.run(case, MODELS[case.model], device, tiny, "trace", phase, 3)
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        result["died"] = str(error)[:300]
        if tracer:
            phase.final["trace"] = tracer.finish()
    return {**result, **phase.peaks(), "phases": phase.phases, **phase.final}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("asked", nargs="+", help="CASE@MIB:N,N,…")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--deadline", type=int, default=150, help="seconds after which no trace is begun")
    given = parser.parse_args()
    import measure

    measure.imports()
    given.out.mkdir(parents=True, exist_ok=True)
    jobs, began = [], time.time()
    for text in given.asked:
        pair, batches = text.split(":")
        case, cap = pair.split("@")
        for batch in batches.split(","):
            arguments = {"case_name": case, "batch": int(batch), "cap": int(cap) * MIB, "device": given.device, "tiny": given.tiny}
            jobs.append({"name": f"{case}@{cap}-{batch}", "call": "trace_capped:traced", "arguments": arguments})

    def report(name, answer, done, total):
        print(f"{time.time() - began:.0f} s {done}/{total} {name}: {answer.get('error') or answer['died'] or 'ran'}", flush=True)
        measure.write_json(answer, given.out / f"{name}.json.gz")

    fork_pool.run(jobs, given.jobs, 120, given.device, report, began + given.deadline)


if __name__ == "__main__":
    main()
