"""What scripts ask about a GPU: ``torch.cuda.get_device_properties``."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch

# By compute capability: threads of a multiprocessor, and kB of its shared memory (CUDA C++ Programming Guide, technical specifications).
_LIMITS: Dict[Tuple[int, int], Tuple[int, int]] = {
    (6, 0): (2048, 64), (6, 1): (2048, 96), (7, 0): (2048, 96), (7, 5): (1024, 64), (8, 0): (2048, 164), (8, 6): (1536, 100),
    (8, 7): (1536, 164), (8, 9): (1536, 100), (9, 0): (2048, 228), (10, 0): (2048, 228), (10, 3): (2048, 228), (12, 0): (1536, 100),
    (12, 1): (1536, 100),
}
_KB = 1024


class Gpu:
    """A GPU, as far as scripts ask about it."""

    def __init__(self, name: str, capability: Tuple[int, int], memory: int, multiprocessors: int, cache: int = 0) -> None:
        self.name = name
        self.capability = capability
        self.memory = memory
        self.multiprocessors = multiprocessors
        # Bytes of L2 cache, 0 where that is not known.
        self.cache = cache


class Properties:
    """Stands for what ``torch.cuda.get_device_properties`` gives. What is not known is 0, and a note says who asked."""

    def __init__(self, gpu: Gpu, recorder: Any) -> None:
        self._recorder = recorder
        self.name = gpu.name
        self.major, self.minor = gpu.capability
        self.total_memory = gpu.memory
        self.multi_processor_count = gpu.multiprocessors
        self.is_integrated = self.is_multi_gpu_board = 0
        self.warp_size = 32
        self.max_threads_per_block = 1024
        self.regs_per_multiprocessor = 65536
        self.shared_memory_per_block = 48 * _KB
        self.gcnArchName = ""
        self.uuid = "00000000-0000-0000-0000-000000000000"
        self.pci_bus_id = self.pci_device_id = self.pci_domain_id = 0
        if gpu.cache:
            self.L2_cache_size = gpu.cache
        limits = _LIMITS.get(gpu.capability)
        if limits is not None:
            self.max_threads_per_multi_processor, shared = limits
            self.shared_memory_per_multiprocessor = shared * _KB
            # CUDA keeps 1 kB for itself from compute capability 8.0 on; before 7.0 a block gets no more than 48.
            self.shared_memory_per_block_optin = (48 if self.major < 7 else shared if self.major == 7 else shared - 1) * _KB

    def __getattr__(self, name: str) -> Any:
        import torch

        if name.startswith("__") or not hasattr(torch._C._CudaDeviceProperties, name):
            raise AttributeError(f"'_CudaDeviceProperties' object has no attribute '{name}'")
        recorder = self._recorder
        recorder.session.note(f"{recorder.where()}: asks for the GPU's {name}, which is not known here; 0 was answered")
        return 0


def check_device(device: Any) -> None:
    """Ends a script that asks for another GPU than the first, as PyTorch does where there is one."""
    index = device if isinstance(device, int) else None
    if isinstance(device, (str, torch.device)) and str(device).startswith("cuda:"):
        index = torch.device(device).index
    if index is not None and index > 0 and not isinstance(device, bool):
        raise RuntimeError(f"CUDA error: invalid device ordinal: the script asks for GPU {index}, and `vramfit run` simulates one, number 0")
