"""Finds where CUDA has room for 2 MiB allocations after each of a few operations: `python3 holes.py OUT.json`, on a GPU.

PyTorch's allocator breaks ties between free blocks by address, so the order of CUDA's addresses matters. Each sequence runs in
its own process. After each operation it allocates 2 MiB pieces from CUDA directly, records their addresses in MiB from the
beginning of the context's memory, and frees them. `--first` does so for each operation alone as the first one of a process.
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
    "deepcopy": "clone_large clone relu sum linear backward",
    "random": "randn relu sum linear backward",
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
        "clone": lambda: keep(empty(64, 64).clone()),
        "clone_large": lambda: keep(empty(512, 4096).clone()),
        "clone_strided": lambda: keep(empty(64, 64).t().contiguous()),
        "copy": lambda: empty(64).copy_(empty(64)),
        "copy_host": lambda: torch.ones(64).cuda(),
        "copy_back": lambda: empty(64).cpu(),
        "item": lambda: empty(1).item(),
        "equal": lambda: empty(64) == 1,
        "nonzero": lambda: torch.zeros(64).cuda().nonzero(),
        "full": lambda: torch.full((16,), 2.0, device="cuda"),
        "ones_like": lambda: torch.ones_like(empty(16)),
        "rand": lambda: torch.rand(64, device="cuda"),
        "randn": lambda: torch.randn(64, device="cuda"),
        "randint": lambda: torch.randint(0, 9, (64,), device="cuda"),
        "randperm": lambda: torch.randperm(64, device="cuda"),
        "randperm_large": lambda: torch.randperm(100_000, device="cuda"),
        "normal_": lambda: empty(64).normal_(),
        "bernoulli_": lambda: empty(64).bernoulli_(),
        "multinomial": lambda: torch.multinomial(torch.ones(8).cuda(), 4),
        "linspace": lambda: torch.linspace(0, 1, 8, device="cuda"),
        "flip": lambda: empty(8, 8).flip(1),
        "roll": lambda: empty(8, 8).roll(1, 0),
        "cat": lambda: torch.cat([empty(8), empty(8)]),
        "cat_many": lambda: torch.cat([empty(8, 8) for _ in range(200)]),
        "stack": lambda: torch.stack([empty(8), empty(8)]),
        "where": lambda: torch.where(empty(8) > 0, empty(8), empty(8)),
        "masked_fill": lambda: empty(8).masked_fill(torch.ones(8, dtype=torch.bool).cuda(), 0),
        "gather": lambda: empty(8, 8).gather(1, torch.zeros(8, 8, dtype=torch.long).cuda()),
        "scatter_": lambda: empty(8, 8).scatter_(1, torch.zeros(8, 8, dtype=torch.long).cuda(), 1.0),
        "index_add_": lambda: empty(8, 8).index_add_(0, indices(), empty(8, 8)),
        "index_select": lambda: empty(64, 8).index_select(0, indices()),
        "one_hot": lambda: functional.one_hot(indices(), 4),
        "sort": lambda: empty(8, 64).sort(),
        "sort_large": lambda: empty(100_000).sort(),
        "topk": lambda: empty(8, 64).topk(4),
        "argmax": lambda: empty(8, 64).argmax(-1),
        "max": lambda: empty(8, 64).max(),
        "max_dim": lambda: empty(8, 64).max(-1),
        "mean_dim": lambda: empty(8, 64).mean(-1),
        "norm": lambda: torch.linalg.vector_norm(empty(64)),
        "foreach_norm": lambda: torch._foreach_norm([empty(64), empty(64)]),
        "foreach_mul": lambda: torch._foreach_mul_([empty(64), empty(64)], 0.9),
        "foreach_zero": lambda: torch._foreach_zero_([empty(64), empty(64)]),
        "log_softmax": lambda: functional.log_softmax(empty(8, 64), -1),
        "nll_loss": lambda: functional.nll_loss(empty(8, 64), indices()),
        "binary_cross_entropy": lambda: functional.binary_cross_entropy_with_logits(empty(8), empty(8)),
        "batch_norm": lambda: functional.batch_norm(empty(4, 8, 8, 8), empty(8), empty(8), training=True),
        "group_norm": lambda: functional.group_norm(empty(4, 8, 8, 8), 2),
        "rms_norm": lambda: functional.rms_norm(empty(8, 64), (64,)),
        "max_pool": lambda: functional.max_pool2d(empty(4, 8, 8, 8), 2),
        "average_pool": lambda: functional.avg_pool2d(empty(4, 8, 8, 8), 2),
        "adaptive_pool": lambda: functional.adaptive_avg_pool2d(empty(4, 8, 8, 8), 1),
        "interpolate": lambda: functional.interpolate(empty(4, 8, 8, 8), scale_factor=2),
        "interpolate_bilinear": lambda: functional.interpolate(empty(4, 8, 8, 8), scale_factor=2, mode="bilinear"),
        "pad": lambda: functional.pad(empty(4, 8, 8, 8), (1, 1, 1, 1), mode="reflect"),
        "grid_sample": lambda: functional.grid_sample(empty(4, 8, 8, 8), empty(4, 8, 8, 2), align_corners=False),
        "unfold": lambda: functional.unfold(empty(4, 8, 8, 8), 3),
        "lstm": lambda: torch.lstm(empty(4, 2, 8), (empty(1, 2, 8), empty(1, 2, 8)), [weight(32, 8), weight(32, 8), weight(32), weight(32)], True, 1, 0.0, True, False, False),
        "lstm_cell": lambda: torch.lstm_cell(empty(2, 8), (empty(2, 8), empty(2, 8)), weight(32, 8), weight(32, 8), weight(32), weight(32)),
        "tril": lambda: empty(8, 8).tril(),
        "cumprod": lambda: empty(8, 8).cumprod(0),
        "fft": lambda: torch.fft.rfft(empty(8, 64)),
        "sin": lambda: empty(8).sin(),
        "pow": lambda: empty(8) ** 2,
        "clamp": lambda: empty(8).clamp(0, 1),
        "add_integer": lambda: torch.zeros((), dtype=torch.long).cuda().add_(1),
        "convolution_bf16": lambda: functional.conv2d(empty(4, 16, 32, 32, dtype=torch.bfloat16), weight(16, 16, 3, 3, dtype=torch.bfloat16)),
        "convolution_transposed": lambda: functional.conv_transpose2d(empty(4, 16, 8, 8), weight(16, 16, 3, 3)),
        "convolution_3d": lambda: functional.conv3d(empty(2, 4, 8, 8, 8), weight(4, 4, 3, 3, 3)),
        "convolution_grouped": lambda: functional.conv2d(empty(4, 16, 32, 32), weight(16, 1, 3, 3), groups=16),
        "scale_check": lambda: torch._amp_foreach_non_finite_check_and_unscale_([empty(8)], empty(1), empty(1)),
    }


def run(sequence):
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    cuda = Cuda()
    known = operations(torch)
    log = [["start", cuda.holes(), []]]
    for name in SEQUENCES.get(sequence, f"{sequence} relu sum linear").split():
        known[name]()
        torch.cuda.synchronize()
        segments = [(part["address"] - cuda.begin, part["total_size"]) for part in torch.cuda.memory_snapshot()]
        log.append([name, cuda.holes(), sorted((address / MIB, size / MIB) for address, size in segments)])
    json.dump(log, sys.stdout)


def main():
    def start(sequence):
        process = subprocess.run([sys.executable, __file__, "--run", sequence], capture_output=True, text=True)
        return sequence, json.loads(process.stdout) if process.returncode == 0 else process.stderr[-500:]

    names = list(SEQUENCES)
    if "--first" in sys.argv:
        import torch

        names = list(operations(torch))
    with ThreadPoolExecutor(12) as pool, open(sys.argv[1], "w") as out:
        json.dump(dict(pool.map(start, names)), out)


if __name__ == "__main__":
    run(sys.argv[2]) if sys.argv[1] == "--run" else main()
