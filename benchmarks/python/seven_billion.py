"""Measures time and memory of `vramfit.estimate` for a Llama with seven billion parameters on the meta device.

    PYTHONPATH=python python3 benchmarks/python/seven_billion.py

Needs torch and transformers, no GPU and no weights.
"""

import resource
import time


def main():
    began = time.time()
    import torch
    import transformers

    imported = time.time()
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig())
    built = time.time()
    import vramfit

    ids = torch.zeros(1, 512, dtype=torch.int64)
    answer = vramfit.estimate(model, dict(input_ids=ids, labels=ids), optimizer="adamw", dtype="bf16", gpu="H100 SXM")
    done = time.time()
    print(answer)
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"parameters {answer.parameters:,}; imports {imported - began:.1f} s, model {built - imported:.1f} s, estimate {done - built:.1f} s, "
          f"at most {mebibytes:.0f} MiB of memory")
    if mebibytes > 2048:
        raise SystemExit("more than 2 GiB of memory")


if __name__ == "__main__":
    main()
