"""The host's memory, as far as it decides which addresses CUDA can use: which freed blocks the C library returns to the operating system,
and what is pinned."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any, Callable, Deque, Dict, Iterator, List

import torch

# Bytes of the largest block that glibc keeps when it is freed. The threshold grows to the largest block freed so far, so that it depends on
# what was imported: on an H200's machine scripts with only torch gave weights of 1 MiB back, those with torchvision 2 MiB, those with
# transformers 4 MiB, and kept smaller ones.
_KEPT = (("transformers", (4 << 20) - 1), ("torchvision", (2 << 20) - 1), ("timm", (2 << 20) - 1))
_KEPT_WITH_TORCH = (1 << 20) - 1


def kept_when_freed() -> int:
    """Bytes of the largest block that the C library keeps when it is freed, with what the script has imported."""
    return next((kept for name, kept in _KEPT if name in sys.modules), _KEPT_WITH_TORCH)


class PinnedBlocks:
    """PyTorch's allocator of pinned memory: blocks of powers of two, which are used again and never returned."""

    def __init__(self, new_block: Callable[[int], None]) -> None:
        self._new_block = new_block
        self._free: Dict[int, int] = {}

    def take(self, count: int) -> int:
        """Takes a block for so many bytes. The result is its size."""
        size = 1 << max(count - 1, 0).bit_length()
        if self._free.get(size, 0):
            self._free[size] -= 1
        elif count:
            self._new_block(size)
        return size

    def give(self, size: int) -> None:
        """A block is free again."""
        self._free[size] = self._free.get(size, 0) + 1

    def hold(self, tensor: torch.Tensor) -> None:
        """A tensor is pinned until it is dropped."""
        self.own(tensor, self.take(_bytes(tensor)))

    def own(self, tensor: torch.Tensor, size: int) -> None:
        """A tensor has a block until it is dropped."""
        weakref.finalize(tensor, self.give, size).atexit = False


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _tensors_of(batch: Any) -> Iterator[torch.Tensor]:
    """The tensors that ``torch.utils.data`` pins, in its order."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from _tensors_of(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _tensors_of(value)


class PinnedBatches:
    """The batches of a loader that pins them. With workers, a thread pins what they have made as soon as it is made."""

    def __init__(self, blocks: PinnedBlocks, ahead: int) -> None:
        self._blocks, self._count = blocks, ahead
        self._ahead: Deque[List[int]] = deque()

    def next(self, batch: Any, left: int) -> None:
        """The next batch, and how many come after it."""
        pinned = list(_tensors_of(batch))
        sizes = [_bytes(tensor) for tensor in pinned]
        taken = self._ahead.popleft() if self._ahead else [self._blocks.take(size) for size in sizes]
        while len(self._ahead) < min(self._count, left):
            self._ahead.append([self._blocks.take(size) for size in sizes])
        for tensor, size in zip(pinned, taken):
            self._blocks.own(tensor, size)
