"""Measures what each kind of operator adds to a process's CUDA context, in a fresh process each, with nvidia-smi.

    python3 validation/context/loads.py --out context.json [--jobs 12] [--device cpu]

A job is a list of operators. After the forward and after the backward pass of each, it records nvidia-smi's figure for the process
minus what PyTorch has reserved, in MiB. On the CPU (--device cpu) it only shows that the operators run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

OPERATORS = {}


def operator(function):
    OPERATORS[function.__name__] = function
    return function


def leaf(torch, *shape, dtype=None, device="cuda"):
    return torch.randn(*shape, device=device, dtype=torch.float32).to(dtype or torch.float32).requires_grad_()


def define(torch, device):
    """Each returns what backward() is called on, or None."""
    F = torch.nn.functional

    def new(*shape, dtype=None):
        return leaf(torch, *shape, dtype=dtype, device=device)

    halves = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
    for label, dtype in halves.items():
        OPERATORS[f"mm_{label}"] = lambda dtype=dtype: new(256, 256, dtype=dtype) @ new(256, 256, dtype=dtype)
        OPERATORS[f"linear_{label}"] = lambda dtype=dtype: F.linear(
            new(256, 256, dtype=dtype), new(256, 256, dtype=dtype), new(256, dtype=dtype)
        )
        OPERATORS[f"conv2d_{label}"] = lambda dtype=dtype: F.conv2d(
            new(4, 32, 28, 28, dtype=dtype), new(64, 32, 3, 3, dtype=dtype), padding=1
        )
    for label, dtype in list(halves.items())[:3]:
        OPERATORS[f"attention_{label}"] = lambda dtype=dtype: F.scaled_dot_product_attention(
            *(new(2, 4, 128, 64, dtype=dtype) for _ in range(3)), is_causal=True
        )
        OPERATORS[f"layer_norm_{label}"] = lambda dtype=dtype: F.layer_norm(new(64, 256, dtype=dtype), (256,))
        OPERATORS[f"pointwise_{label}"] = lambda dtype=dtype: pointwise(new(64, 256, dtype=dtype))
        OPERATORS[f"batch_norm_{label}"] = lambda dtype=dtype: F.batch_norm(
            new(8, 32, 14, 14, dtype=dtype), None, None, training=True
        )

    def pointwise(x):
        return F.gelu(x) + F.silu(x) * torch.tanh(x) + F.relu(x).sigmoid() + x.abs().sqrt() + x.exp()

    from torch.nn.attention import SDPBackend, sdpa_kernel

    def forced(backend, dtype):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*(new(2, 4, 128, 64, dtype=dtype) for _ in range(3)))

    OPERATORS["attention_flash"] = lambda: forced(SDPBackend.FLASH_ATTENTION, torch.bfloat16)
    OPERATORS["attention_math"] = lambda: forced(SDPBackend.MATH, torch.float32)
    OPERATORS["attention_efficient"] = lambda: forced(SDPBackend.EFFICIENT_ATTENTION, torch.bfloat16)
    OPERATORS["bmm"] = lambda: torch.bmm(new(8, 64, 64), new(8, 64, 64))
    OPERATORS["conv1d"] = lambda: F.conv1d(new(4, 32, 100), new(64, 32, 3))
    OPERATORS["conv3d"] = lambda: F.conv3d(new(2, 8, 8, 16, 16), new(16, 8, 3, 3, 3))
    OPERATORS["conv_transpose"] = lambda: F.conv_transpose2d(new(2, 32, 14, 14), new(32, 16, 2, 2), stride=2)
    OPERATORS["conv_depthwise"] = lambda: F.conv2d(new(4, 32, 28, 28), new(32, 1, 3, 3), groups=32)
    OPERATORS["conv_grouped"] = lambda: F.conv2d(new(4, 32, 28, 28), new(32, 8, 3, 3), groups=4)
    OPERATORS["conv_strided"] = lambda: F.conv2d(new(4, 3, 224, 224), new(64, 3, 7, 7), stride=2, padding=3)
    OPERATORS["conv_one"] = lambda: F.conv2d(new(4, 64, 28, 28), new(256, 64, 1, 1))
    OPERATORS["conv_channels_last"] = lambda: F.conv2d(
        new(4, 32, 28, 28).to(memory_format=torch.channels_last), new(64, 32, 3, 3).to(memory_format=torch.channels_last)
    )
    OPERATORS["conv_many"] = lambda: sum(
        F.conv2d(new(4, 32, size, size), new(channels, 32, 3, 3), stride=stride).sum()
        for size in (14, 28, 56, 112)
        for channels in (32, 64, 128)
        for stride in (1, 2)
    )
    OPERATORS["pool"] = lambda: F.max_pool2d(new(4, 8, 28, 28), 2).sum() + F.adaptive_avg_pool2d(new(4, 8, 28, 28), 1).sum()
    OPERATORS["interpolate"] = lambda: F.interpolate(new(2, 8, 14, 14), scale_factor=2, mode="bilinear")
    OPERATORS["softmax"] = lambda: F.softmax(new(64, 256), -1)
    OPERATORS["dropout"] = lambda: F.dropout(new(64, 256), 0.1)
    OPERATORS["embedding"] = lambda: F.embedding(torch.zeros(8, 16, dtype=torch.long, device=device), new(1000, 64))
    OPERATORS["cross_entropy"] = lambda: F.cross_entropy(
        new(64, 1000), torch.zeros(64, dtype=torch.long, device=device)
    )
    OPERATORS["cumsum"] = lambda: torch.cumsum(new(64, 256), -1)
    OPERATORS["index"] = lambda: new(64, 256)[torch.zeros(8, dtype=torch.long, device=device)]

    def sort():
        torch.sort(torch.randn(100_000, device=device))

    OPERATORS["sort"] = sort
    OPERATORS["lstm"] = lambda: torch.nn.LSTM(64, 64).to(device)(new(8, 4, 64))[0]
    OPERATORS["gru"] = lambda: torch.nn.GRU(64, 64).to(device)(new(8, 4, 64))[0]
    OPERATORS["fft"] = lambda: torch.fft.rfft(new(64, 256)).abs()
    OPERATORS["inverse"] = lambda: torch.linalg.inv(new(64, 64) + 64 * torch.eye(64, device=device))

    def optimizer(kind, **options):
        parameters = [new(64, 64) for _ in range(8)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        getattr(torch.optim, kind)(parameters, lr=0.1, **options).step()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    OPERATORS["adam_foreach"] = lambda: optimizer("Adam", foreach=True)
    OPERATORS["adam_fused"] = lambda: optimizer("Adam", fused=True)
    OPERATORS["adam_loop"] = lambda: optimizer("Adam", foreach=False)
    OPERATORS["sgd_foreach"] = lambda: optimizer("SGD", momentum=0.9, foreach=True)

    def benchmark():
        torch.backends.cudnn.benchmark = True
        return OPERATORS["conv2d_fp32"]()

    OPERATORS["conv_benchmark"] = benchmark


def figure(torch):
    """MiB beyond what is reserved."""
    if not torch.cuda.is_available():
        return None
    torch.cuda.synchronize()
    command = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    for _ in range(3):
        lines = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.splitlines()
        for line in lines:
            pid, used = line.split(",")
            if int(pid) == os.getpid():
                return int(used) - torch.cuda.memory_reserved() / (1 << 20)
    return None


def job(names, device):
    import torch

    define(torch, device)
    steps = []
    torch.zeros(8, device=device)
    steps.append(["init", figure(torch)])
    for name in names:
        try:
            result = OPERATORS[name]()
            steps.append([name, figure(torch)])
            if result is not None:
                result.float().sum().backward()
                steps.append([f"{name} backward", figure(torch)])
            del result
        except Exception as error:
            steps.append([name, f"{type(error).__name__}: {error}"[:200]])
    facts = {}
    if device == "cuda":
        free, total = torch.cuda.mem_get_info()
        properties = torch.cuda.get_device_properties(0)
        facts = {"total": total, "total_memory": properties.total_memory, "reserved": torch.cuda.memory_reserved()}
    return {"steps": steps, **facts}


def plan():
    """Jobs by name: environment and operators."""
    everything = sorted(OPERATORS)
    # The longest jobs come first.
    jobs = {"all": ({}, everything)}
    jobs["all eager loading"] = ({"CUDA_MODULE_LOADING": "EAGER"}, everything)
    jobs["all expandable"] = ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, everything)
    some = ["linear_fp32", "layer_norm_fp32", "attention_fp32", "pointwise_fp32", "cross_entropy", "adam_foreach"]
    jobs["transformer"] = ({}, some)
    jobs["transformer bf16"] = ({}, [name.replace("fp32", "bf16") for name in some])
    jobs["transformer fp16"] = ({}, [name.replace("fp32", "fp16") for name in some])
    jobs["transformer expandable"] = ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, some)
    network = ["conv_strided", "batch_norm_fp32", "conv_many", "pool", "linear_fp32", "cross_entropy", "sgd_foreach"]
    jobs["network"] = ({}, network)
    jobs["network benchmark"] = ({}, ["conv_benchmark", *network])
    return {**jobs, **{name: ({}, [name]) for name in everything}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", help="names with commas between")
    parser.add_argument("--job", help="internal: operators of one job")
    given = parser.parse_args()
    if given.job is not None:
        print("RESULT " + json.dumps(job(given.job.split(","), given.device)))
        return
    import torch

    define(torch, given.device)
    wanted = plan()
    if given.only:
        wanted = {name: wanted[name] for name in given.only.split(",")}
    results, running, waiting = {}, {}, list(wanted.items())
    began = time.time()
    while waiting or running:
        while waiting and len(running) < given.jobs:
            name, (environment, names) = waiting.pop(0)
            command = [sys.executable, __file__, "--job", ",".join(names), "--device", given.device]
            running[name] = subprocess.Popen(
                command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        for name, process in list(running.items()):
            if process.poll() is not None:
                text = process.communicate()[0]
                found = [line[7:] for line in text.splitlines() if line.startswith("RESULT ")]
                results[name] = json.loads(found[0]) if found else {"error": text[-800:]}
                del running[name]
        time.sleep(0.05)
    document = {"torch": torch.__version__, "cuda": torch.version.cuda, "seconds": round(time.time() - began), "jobs": results}
    if given.device == "cuda":
        document["cudnn"] = torch.backends.cudnn.version()
        query = "name,memory.total,memory.reserved,memory.used,driver_version"
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv"]
        document["nvidia_smi"] = subprocess.run(command, capture_output=True, text=True).stdout
    text = json.dumps(document, indent=1)
    if given.out:
        given.out.write_text(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
