"""Finds where CUDA has room for 2 MiB allocations after each of a few operations: `python3 holes.py OUT.json`, on a GPU.

PyTorch's allocator breaks ties between free blocks by address, so the order of CUDA's addresses matters. Each sequence runs in
its own process. After each operation it allocates 2 MiB pieces from CUDA directly, records their addresses in MiB from the
beginning of the context's memory, and frees them.
"""

import ctypes
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

MIB = 1 << 20
PIECES = 270
FIRST_HOLE = 414  # where the first 2 MiB go in a new process

SEQUENCES = {
    "pointwise": "fill relu add gelu dropout cast sum softmax cross_entropy embedding layer_norm cumsum foreach",
    "perceptron": "fill linear relu linear mse backward foreach",
    "perceptron-bf16": "fill_bf16 linear_bf16 backward foreach",
    "product-first": "matmul bmm linear gelu cross_entropy backward",
    "transformer": "embedding layer_norm dropout linear attention gelu cross_entropy backward foreach",
    "transformer-bf16": "embedding layer_norm linear_bf16 attention_bf16 cross_entropy backward foreach",
    "arange-first": "arange linear backward",
    "cumsum-first": "cumsum linear backward",
    "index-first": "index linear backward",
    "layer-norm-first": "layer_norm linear backward",
    "convolution": "convolution convolution_backward linear backward",
}


class Cuda:
    """cudaMalloc and cudaFree past PyTorch."""

    def __init__(self):
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps if "libcudart" in line and "nvidia" in line)
        self.library = ctypes.CDLL(path)
        self.begin = None

    def holes(self):
        pointer, addresses = ctypes.c_void_p(), []
        for _ in range(PIECES):
            if self.library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(2 * MIB)):
                raise MemoryError("cudaMalloc")
            addresses.append(pointer.value)
        for address in addresses:
            self.library.cudaFree(ctypes.c_void_p(address))
        if self.begin is None:
            self.begin = addresses[0] - FIRST_HOLE * MIB
        rows = []
        for offset in sorted((address - self.begin) // MIB for address in addresses):
            if rows and rows[-1][1] == offset:
                rows[-1][1] += 2
            else:
                rows.append([offset, offset + 2])
        return rows


def operations(torch):
    """Each by name; small tensors, so that PyTorch takes 2 MiB and the workspaces only."""
    functional, kept, weights = torch.nn.functional, {}, {}

    def empty(*shape, dtype=torch.float32, grad=False):
        return torch.empty(*shape, device="cuda", dtype=dtype, requires_grad=grad)

    def weight(*shape, dtype=torch.float32):
        return weights.setdefault((shape, dtype), empty(*shape, dtype=dtype, grad=True))

    def keep(result):
        kept["result"] = result

    def indices():
        return torch.zeros(8, dtype=torch.long).cuda()

    def linear(dtype):
        keep(functional.linear(empty(8, 64, dtype=dtype), weight(64, 64, dtype=dtype), weight(64, dtype=dtype)))

    def attention(dtype):
        functional.scaled_dot_product_attention(*(empty(2, 4, 32, 64, dtype=dtype, grad=True) for _ in range(3)))

    def foreach():
        parameters = [torch.nn.Parameter(empty(64, 64)) for _ in range(4)]
        for parameter in parameters:
            parameter.grad = torch.empty_like(parameter)
        torch.optim.Adam(parameters).step()

    def convolution():
        kept["image"] = functional.conv2d(empty(4, 16, 32, 32, grad=True), weight(16, 16, 3, 3), weight(16), padding=1)

    return {
        "fill": lambda: torch.zeros(16, device="cuda"),
        "fill_bf16": lambda: torch.zeros(16, device="cuda", dtype=torch.bfloat16),
        "relu": lambda: functional.relu(empty(16)),
        "add": lambda: empty(16) + empty(16),
        "gelu": lambda: functional.gelu(empty(16)),
        "dropout": lambda: functional.dropout(empty(64), 0.1),
        "cast": lambda: empty(16).to(torch.bfloat16),
        "sum": lambda: empty(64, 64).sum(),
        "softmax": lambda: functional.softmax(empty(8, 64), -1),
        "cross_entropy": lambda: functional.cross_entropy(torch.zeros(8, 64, device="cuda"), indices()),
        "embedding": lambda: functional.embedding(indices(), empty(64, 64)),
        "layer_norm": lambda: functional.layer_norm(empty(8, 64), (64,), empty(64), empty(64)),
        "cumsum": lambda: torch.cumsum(indices(), 0),
        "index": lambda: empty(64, 4)[indices()],
        "arange": lambda: torch.arange(8, device="cuda"),
        "mse": lambda: functional.mse_loss(empty(8), empty(8)),
        "matmul": lambda: empty(8, 64) @ empty(64, 64),
        "bmm": lambda: torch.bmm(empty(2, 8, 64), empty(2, 64, 8)),
        "linear": lambda: linear(torch.float32),
        "linear_bf16": lambda: linear(torch.bfloat16),
        "attention": lambda: attention(torch.float32),
        "attention_bf16": lambda: attention(torch.bfloat16),
        "backward": lambda: kept["result"].sum().backward(),
        "convolution": convolution,
        "convolution_backward": lambda: kept["image"].sum().backward(),
        "foreach": foreach,
    }


def run(sequence):
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    cuda = Cuda()
    known = operations(torch)
    log = [["start", cuda.holes(), []]]
    for name in SEQUENCES[sequence].split():
        known[name]()
        torch.cuda.synchronize()
        segments = [(part["address"] - cuda.begin, part["total_size"]) for part in torch.cuda.memory_snapshot()]
        log.append([name, cuda.holes(), sorted((address / MIB, size / MIB) for address, size in segments)])
    json.dump(log, sys.stdout)


def main():
    def start(sequence):
        process = subprocess.run([sys.executable, __file__, "--run", sequence], capture_output=True, text=True)
        return sequence, json.loads(process.stdout) if process.returncode == 0 else process.stderr[-500:]

    with ThreadPoolExecutor(12) as pool, open(sys.argv[1], "w") as out:
        json.dump(dict(pool.map(start, SEQUENCES)), out)


if __name__ == "__main__":
    run(sys.argv[2]) if sys.argv[1] == "--run" else main()
