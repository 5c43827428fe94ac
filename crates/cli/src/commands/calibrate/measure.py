"""Measures on this machine's GPU what `vramfit estimate` cannot know without it, and prints it as JSON.

Needs torch with CUDA. Takes a few seconds and less than 1 GiB of GPU memory.

    python3 measure.py [DEVICE]

What a CUDA context takes grows with the libraries that have been used, each by thread: Python's own, and autograd's for
the backward pass. So it is read again and again: at the start, after a product of matrices (cuBLAS) on either thread,
after a convolution (cuDNN) on either thread.
"""

import json
import os
import subprocess
import sys

MIB = 1 << 20
NEEDS = "calibration needs Python with torch built for CUDA, and a CUDA GPU"


def smi(query, *more):
    """The lines that nvidia-smi answers, each as a list of fields."""
    command = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader,nounits", *more]
    text = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    return [[field.strip() for field in line.split(",")] for line in text.splitlines() if line.strip()]


def by_process():
    """MiB that nvidia-smi shows for this process, or None where it cannot tell (Windows, WSL, some containers)."""
    try:
        rows = smi("compute-apps=pid,used_memory")
        found = [int(used) for pid, used in rows if int(pid) == os.getpid()]
        return found[0] if found else None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def of_device(uuid):
    """MiB in use on the whole GPU, or None where nvidia-smi cannot tell."""
    try:
        return int(smi("gpu=memory.used", f"--id={uuid}")[0][0])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def uuids():
    """The GPUs' names for nvidia-smi, without touching CUDA."""
    try:
        return [row[0] for row in smi("gpu=uuid")]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []


class Reader:
    """Reads what this process takes beyond what PyTorch has reserved, in bytes."""

    def __init__(self, torch, uuid, before):
        self.torch, self.uuid, self.before = torch, uuid, before
        self.method = "process" if by_process() is not None else "device"

    def __call__(self):
        self.torch.cuda.synchronize()
        if self.method == "process":
            used = by_process()
        else:
            now = of_device(self.uuid)
            used = None if now is None or self.before is None else now - self.before
        return None if used is None else used * MIB - self.torch.cuda.memory_reserved()


def requested(torch):
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def main():
    try:
        import torch
    except ImportError as error:
        sys.exit(f"{NEEDS}: {error}")
    index = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    visible = uuids()
    before = {uuid: of_device(uuid) for uuid in visible}
    if not torch.cuda.is_available():
        sys.exit(f"{NEEDS}: torch {torch.__version__} sees no CUDA GPU")
    if index >= torch.cuda.device_count():
        sys.exit(f"found {torch.cuda.device_count()} GPUs, needed one with number {index}")
    torch.cuda.set_device(index)
    properties = torch.cuda.get_device_properties(index)
    uuid = f"GPU-{properties.uuid}" if hasattr(properties, "uuid") else (visible + [None])[index]

    x = torch.zeros(64, 64, device="cuda")
    y = torch.zeros(64, 64, device="cuda")
    bias = torch.zeros(64, device="cuda")
    image = torch.zeros(2, 8, 16, 16, device="cuda")
    kernel = torch.zeros(8, 8, 3, 3, device="cuda", requires_grad=True)
    weight = torch.zeros(64, 64, device="cuda", requires_grad=True)
    y.add_(1).sum()
    read = Reader(torch, uuid, before.get(uuid))
    context = read()

    start = requested(torch)
    torch.mm(x, x, out=y)
    handle = requested(torch) - start
    after_product = read()
    start = requested(torch)
    torch.addmm(bias, x, x, out=y)
    light = requested(torch) - start
    torch.mm(x, weight).sum().backward()
    after_both_products = read()

    result = torch.nn.functional.conv2d(image, kernel, padding=1)
    after_convolution = read()
    result.sum().backward()
    after_both_convolutions = read()

    def grown(later, earlier):
        return None if later is None or earlier is None else later - earlier

    print(
        json.dumps(
            {
                "name": properties.name,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "multiprocessors": properties.multi_processor_count,
                "threads_per_multiprocessor": properties.max_threads_per_multi_processor,
                "capacity": torch.cuda.mem_get_info(index)[1],
                "context": context,
                "blas_context": grown(after_product, context),
                "blas_backward_context": grown(after_both_products, after_product),
                "dnn_context": grown(after_convolution, after_both_products),
                "dnn_backward_context": grown(after_both_convolutions, after_convolution),
                "blas_workspace": handle,
                "blas_lt_workspace": light,
                "method": read.method,
                "torch": torch.__version__,
                "cuda": torch.version.cuda,
                "cudnn": torch.backends.cudnn.version(),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
