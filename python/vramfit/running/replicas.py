"""``DistributedDataParallel`` without other ranks: the memory of its buckets and broadcasts, as ``reducer.cpp`` takes it.

PyTorch's own reducer runs in hooks of the backward pass, which is simulated and not run here.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Set, Tuple, Type

import torch
from torch.utils._pytree import tree_map

from .recorder import ScriptRecorder

_MIB = 1 << 20
# Bytes of the bucket whose gradients come first, of a broadcast, and how many of these are under way at once.
_FIRST_BUCKET, _BROADCAST, _IN_FLIGHT = _MIB, 250 * _MIB, 2
_VIEWS = "gradient_as_bucket_view=True: gradients become views of their buckets when the backward pass has ended, not within it"
_STATIC = "static_graph=True is simulated as a graph that is not static"


def by_size(tensors: Sequence[torch.Tensor], limits: Sequence[float]) -> List[List[torch.Tensor]]:
    """The tensors of each bucket: one type, closed when it has reached its limit. The last limit stays."""
    opened: Dict[torch.dtype, Tuple[List[torch.Tensor], int]] = {}
    closed: List[List[torch.Tensor]] = []
    counts: Dict[torch.dtype, int] = {}
    for tensor in tensors:
        members, size = opened.pop(tensor.dtype, ([], 0))
        members, size = [*members, tensor], size + tensor.numel() * tensor.element_size()
        if size >= limits[min(counts.get(tensor.dtype, 0), len(limits) - 1)]:
            closed.append(members)
            counts[tensor.dtype] = counts.get(tensor.dtype, 0) + 1
        else:
            opened[tensor.dtype] = (members, size)
    return closed + [members for members, _ in opened.values()]


def in_order_of_calls(root: torch.nn.Module, called: Sequence[torch.nn.Module]) -> List[torch.Tensor]:
    """The weights that are trained, in the order in which their modules are called. One that is not called itself belongs to the module around it."""
    owned: Dict[int, List[torch.Tensor]] = {id(root): [], **{id(module): [] for module in called}}
    known: Set[int] = set()

    def add(module: torch.nn.Module, owner: int) -> None:
        owner = id(module) if id(module) in owned else owner
        for weight in module.parameters(recurse=False):
            if weight.requires_grad and id(weight) not in known:
                known.add(id(weight))
                owned[owner].append(weight)
        for child in module.children():
            add(child, owner)

    add(root, id(root))
    return [weight for weights in owned.values() for weight in weights]


def _flat(members: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.empty(sum(member.numel() for member in members), dtype=members[0].dtype, device=members[0].device)


def _broadcast(tensors: Sequence[torch.Tensor]) -> None:
    """``_broadcast_coalesced``: each bucket is copied."""
    under_way: Deque[torch.Tensor] = deque()
    for members in by_size(tensors, [_BROADCAST]):
        if len(under_way) >= _IN_FLIGHT:
            under_way.popleft()
        if len(members) > 1 or not members[0].is_contiguous():
            under_way.append(_flat(members))
    while under_way:
        under_way.popleft()


def replica_class(recorder: ScriptRecorder, world: int) -> Type[torch.nn.Module]:
    """The class that stands for ``DistributedDataParallel``."""

    class DistributedDataParallel(torch.nn.Module):
        def __init__(
            self, module: torch.nn.Module, device_ids: Optional[Sequence[Any]] = None, output_device: Any = None, dim: int = 0,
            broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None, bucket_cap_mb: Optional[float] = None,
            find_unused_parameters: bool = False, check_reduction: bool = False, gradient_as_bucket_view: bool = False,
            static_graph: bool = False, **_: Any,
        ) -> None:
            super().__init__()
            self.module = module
            self.device = next(module.parameters()).device
            self.require_backward_grad_sync = True
            self._moves_inputs = device_ids is not None
            self._limits = [_FIRST_BUCKET, (25 if bucket_cap_mb is None else bucket_cap_mb) * _MIB]
            self._broadcasts_buffers = broadcast_buffers
            self._broadcasts_next = True
            self._called: List[torch.nn.Module] = []
            self._is_rebuilt = find_unused_parameters and not static_graph
            for is_given, cause in ((gradient_as_bucket_view, _VIEWS), (static_graph, _STATIC)):
                if is_given:
                    recorder.cause(cause)
            weights = self._weights()
            with torch.no_grad():
                self._verify(weights)
                if init_sync:
                    _broadcast([*module.parameters(), *module.buffers()])
                limits = [float("inf")] if not self._is_rebuilt else self._limits
                self._make_buckets(by_size(weights[::-1] if self._is_rebuilt else weights, limits))

        def _weights(self) -> List[torch.Tensor]:
            return [weight for weight in self.module.parameters() if weight.requires_grad]

        def _verify(self, weights: Sequence[torch.Tensor]) -> None:
            """The ranks compare how many weights they have, then their shapes and strides."""
            count = torch.empty(1, dtype=torch.int64, device=self.device)
            counts = [torch.empty_like(count) for _ in range(world)]
            sizes = torch.empty(2 * sum(weight.dim() for weight in weights), dtype=torch.int64, device=self.device)
            del sizes, counts, count

        def _make_buckets(self, buckets: Sequence[Sequence[torch.Tensor]]) -> None:
            self._buckets = [_flat(members) for members in buckets]
            recorder.categorize(self._buckets, "communication")

        def _rebuild(self) -> None:
            """Buckets in the order in which gradients were ready: the module that is called last comes first."""
            order = in_order_of_calls(self.module, self._called)
            indexes = torch.empty(len(order) + 1, dtype=torch.int32, device=self.device)
            buckets = by_size(order[::-1], self._limits)
            counts = torch.empty(len(buckets), dtype=torch.int32, device=self.device)
            del counts, indexes
            self._buckets = []
            self._make_buckets(buckets)
            self._is_rebuilt = True
            self._called = []

        @contextlib.contextmanager
        def no_sync(self) -> Iterator[None]:
            before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
            try:
                yield
            finally:
                self.require_backward_grad_sync = before

        def forward(self, *inputs: Any, **named: Any) -> Any:
            is_grad_on = torch.is_grad_enabled()
            with torch.no_grad():
                if is_grad_on and not self._is_rebuilt and self._called:
                    self._rebuild()
                buffers = list(self.module.buffers())
                if self._broadcasts_next and self._broadcasts_buffers and buffers:
                    _broadcast(buffers)
            self._broadcasts_next = is_grad_on and self.require_backward_grad_sync
            if self._moves_inputs:
                inputs, named = tree_map(self._moved, (inputs, named))
            if self._is_rebuilt or not self._broadcasts_next:
                return self.module(*inputs, **named)
            called: List[torch.nn.Module] = []
            handles = [one.register_forward_pre_hook(lambda one, _: called.append(one)) for one in self.module.modules()]
            try:
                return self.module(*inputs, **named)
            finally:
                self._called = called
                for handle in handles:
                    handle.remove()

        def _moved(self, value: Any) -> Any:
            return value.to(self.device) if isinstance(value, torch.Tensor) else value

        def register_comm_hook(self, *_: Any, **__: Any) -> None:
            recorder.cause(f"{recorder.where()}: a communication hook is not called")

        def join(self, *_: Any, **__: Any) -> Any:
            return contextlib.nullcontext()

        def _set_static_graph(self) -> None:
            recorder.cause(_STATIC)

    return DistributedDataParallel
