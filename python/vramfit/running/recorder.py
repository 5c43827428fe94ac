"""The recording of a whole script: a recorder that also knows which tensors lead to which, and runs backward passes."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import Any, ContextManager, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..operators import Operator, base_name
from ..recorder import Recorder
from ..session import Session
from ..outcomes import NEW, SAME, Outcome, substituted
from ..rules import contiguous_stride
from ..tensors import HOST, LEAF, VIEW, Info, Kind, Storage, numel
from .host_memory import PinnedBlocks
from .inner_results import place_in_graph
from .memory_figures import MemoryReads
from .random_numbers import RandomNumbers
from .sparse_rows import Rows, SparseTensors

# Its second argument stays 0: no gradient is infinite.
_FINDS_INFINITIES = "aten::_amp_foreach_non_finite_check_and_unscale_"


class Reference(NamedTuple):
    """Stands for a tensor in the arguments of a recorded call."""

    number: int


class RecordedCall(NamedTuple):
    """A call of the graph, as far as it is needed to run it again."""

    operator: Operator
    args: List[Any]
    kwargs: Dict[str, Any]
    results: Tuple[Optional[int], ...]


class ScriptRecorder(Recorder):
    """The calls, frees, backward passes and updates of a script, in the order in which they happened."""

    # A script draws its own numbers.
    bounds_random = False
    # Their results require grad, which computed ones would not.
    computes_trained = False

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        # The tensors that are alive, by number.
        self.live: Dict[int, Info] = {}
        # For each tensor that requires grad and is no leaf, the tensors that lead to it.
        self._producers: Dict[int, Tuple[int, ...]] = {}
        # For each storage that was written to, the tensors that were written into it.
        self._written: Dict[int, List[int]] = {}
        # The calls of the graph, and which of them made or wrote each tensor.
        self.calls: List[RecordedCall] = []
        self.made_by: Dict[int, List[int]] = {}
        # For each tensor that was freed, the list of the step that frees it.
        self._freed: Dict[int, List[int]] = {}
        # Tensors of a graph that is run again, by storage: whose place each takes.
        self.replayed: Dict[int, List[int]] = {}
        # The tensors of that graph, by the numbers of those whose places they take.
        self.replayed_tensors: Dict[int, torch.Tensor] = {}
        # The steps that find a result in the graph behind another. They need its node, not its memory.
        self.inner_steps: Set[int] = set()
        # Hooks on gradients, by tensor: each with whether it is called with the leaf, when that has its gradient.
        self.hooks: Dict[int, List[Tuple[Any, bool]]] = {}
        # Tensors that are no leaves and keep their gradients.
        self.retained: Set[int] = set()
        # Whether the script ever had cuDNN choose its plans by trying them, and whether it joined a process group.
        self.is_cudnn_benchmarked = self.has_process_group = False
        # Whether a scaler ever decided by values if an optimizer does its step, and whether sizes follow from values that are assumed.
        self.has_grad_scaler = self.has_assumed_sizes = False
        # Lines that read values that are not computed.
        self.stand_ins: Dict[str, int] = {}
        self.sparse = SparseTensors(self.cause, self.where)
        self.memory_reads = MemoryReads(self.where)
        self.random_numbers = RandomNumbers(self.paused)
        self.pinned = PinnedBlocks(lambda size: self.pseudo("pinned", {"bytes": size}))

    def adopt(self, tensor: torch.Tensor, kind: Kind, storage: Optional[Storage], offset: int, host: bool, **more: Any) -> Info:
        info = super().adopt(tensor, kind, storage, offset, host, **more)
        self.live[info.index] = info
        return info

    def _released(self, address: int, index: int) -> None:
        self.live.pop(index, None)
        super()._released(address, index)

    def free(self, index: int) -> None:
        self.live.pop(index, None)
        self.sparse.forget(index)
        super().free(index)
        self._freed[index] = self.steps[-1][1]

    def free_later(self, index: int) -> None:
        """Moves the free of a tensor to now: something that autograd still held was used."""
        freed = self._freed.get(index)
        if freed is not None and index in freed:
            freed.remove(index)
            self.free(index)

    def info_of(self, tensor: torch.Tensor) -> Info:
        info = self.infos.get(id(tensor))
        if info is None and self.replayed and tensor.is_meta:
            found = self.replayed.get(tensor.untyped_storage()._cdata, ())
            shape, stride = tuple(tensor.shape), tuple(tensor.stride())
            for index in found:
                kind = self.rows[index][0]
                if kind.shape == shape and kind.stride == stride:
                    return self.record_of(index)
            return self._inner(tensor, found[0] if found else None)
        if info is None and tensor.is_meta:
            # Made while nothing was recorded, by a data loader's worker: a large tensor of the host, whose values are not kept.
            info = self.adopt(tensor, self.session.kinds.of(tensor), None, 0, True, leaf=tensor.is_leaf)
            self.constants.append(info.index)
            return info
        return super().info_of(tensor)

    def _inner(self, tensor: torch.Tensor, base: Optional[int]) -> Info:
        """A tensor that only autograd has: a view that an operator made of its argument, or one of its own results."""
        kind = self.session.kinds.of(tensor)
        place = place_in_graph(tensor, self.replayed_tensors) if base is None else None
        if place is not None:
            # An operator that consists of others made it on the way to its result.
            of, way = place
            info = self.adopt(tensor, kind, None, 0, True)
            info.host = False
            self.inner_steps.add(len(self.steps))
            self.pseudo("inner_result", {"of": f"%{of}", "way": way, "output": tensor.output_nr}, [info.name])
            self.leads_to(info.index, (of,))
            return info
        if base is None:
            # Its memory belongs to the operator's node, which has it already. What is computed from it is on the GPU.
            info = self.adopt(tensor, kind, None, 0, True)
            self.constants.append(info.index)
            info.host = False
            return info
        owner = self.record_of(base)
        info = self.adopt(tensor, kind, owner.storage, owner.offset, owner.host, view=True)
        if kind.shape == owner.kind.shape[::-1] and len(kind.shape) == 2:
            number, arguments = self.session.number(self.session.operator(torch.ops.aten.t.default)), [owner.name]
        else:
            number = self.session.number(self.session.operator(torch.ops.aten.as_strided.default))
            arguments = [owner.name, kind.shape, kind.stride, None]  # type: ignore[list-item]
        # The operator made it in the forward pass, on the script's own thread, which numbered its node.
        self.pseudo("thread", {"is_backward": None})
        self.steps.append(("call", number, arguments, [info.name], self.session.sources.here(), 0))
        self.pseudo("thread", {"is_backward": True})
        if kind.requires_grad:
            self.leads_to(info.index, (base,))
        return info

    def record_of(self, index: int) -> Info:
        """A record with the number of a tensor that may have been freed."""
        kind, storage, offset, flags = self.rows[index]
        live = self.live.get(index)
        if live is not None:
            return live
        return Info(index, kind, Storage(storage, False), offset, bool(flags & HOST), bool(flags & LEAF), bool(flags & VIEW), False)

    def pseudo(self, name: str, arguments: Dict[str, Any], results: Sequence[Optional[str]] = ()) -> None:
        """Records something that the script did and that is no operator."""
        number = self.session.pseudo(f"vramfit.{name}", list(arguments))
        self.steps.append(("call", number, list(arguments.values()), list(results), self.session.sources.here(), 0))

    def categorize(self, tensors: Iterable[torch.Tensor], what: str) -> None:
        """Records what memory is for."""
        names = tuple(info.name for info in (self.infos.get(id(tensor)) for tensor in tensors) if info is not None and not info.host)
        if names:
            self.pseudo("category", {"tensors": names, "what": {"string": what}})

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], flag: int = 0) -> Any:
        if self.sparse.has_any:
            self.sparse.check(operator, [info for info in (self.infos.get(id(tensor)) for tensor in _tensors(args)) if info is not None])
        return super().call(operator, args, kwargs, flag)

    # -- the graph ----------------------------------------------------------------------------------------------------

    def called(
        self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: Sequence[Info], names: Sequence[Optional[str]],
    ) -> None:
        results = tuple(None if name is None else int(name[1:]) for name in names)
        self._note_drawn(operator, infos, results)
        self.sparse.called(operator, args, infos, results)
        if not torch.is_grad_enabled() or operator.detaches:
            return
        inputs = tuple(info.index for info in infos if info.kind.requires_grad)
        if not inputs:
            return
        number = len(self.calls)
        references: List[Any] = [Reference(info.index) for info in infos]
        self.calls.append(RecordedCall(operator, *substituted(args, kwargs, references), results))
        for result in results:
            # An argument that is returned as it is, such as a matrix by `flatten(1)`, stays what it was.
            if result is not None and (operator.writes or result not in inputs):
                self.leads_to(result, inputs)
                self.made_by.setdefault(result, []).append(number)
        if operator.writes and not infos[0].detached:
            self._written.setdefault(infos[0].storage.index, []).extend(inputs)
        if operator.writes:
            self.made_by.setdefault(infos[0].index, []).append(number)

    def _note_drawn(self, operator: Operator, infos: Sequence[Info], results: Sequence[Optional[int]]) -> None:
        """Random numbers of the GPU are others than these, and so is what is computed from them."""
        from_drawn = any(info.storage.random for info in infos)
        if not from_drawn and not operator.random:
            return
        for info in (self.live.get(result) for result in results if result is not None):
            if info is not None and (from_drawn or not info.host):
                info.storage.random = True

    def leads_to(self, result: int, inputs: Tuple[int, ...]) -> None:
        """Records that the gradient of a tensor goes on to others."""
        before = self._producers.get(result)
        self._producers[result] = inputs if before is None else before + inputs

    def reached(self, roots: Iterable[int]) -> List[Info]:
        """The leaves that a backward pass from these tensors leads to."""
        stack, seen, leaves = list(roots), set(), []
        while stack:
            index = stack.pop()
            if index in seen:
                continue
            seen.add(index)
            producers = self._producers.get(index)
            stack.extend(self._written.get(self.rows[index][1], ()))
            if producers is not None:
                stack.extend(producers)
            else:
                info = self.live.get(index)
                # A tensor into which a result was written is no leaf any more.
                if info is not None and info.kind.requires_grad and info.leaf:
                    leaves.append(info)
        return sorted(leaves, key=lambda info: info.index)

    def sparse_rows(self, leaf: Info, roots: Iterable[int], keeps_graph: bool) -> Optional[Rows]:
        """The rows of the sparse gradient that a backward pass from these tensors gives a leaf, None where it is dense."""
        if not self.sparse.has_lookups(leaf):
            return None
        stack, reached = list(roots), set()
        while stack:
            index = stack.pop()
            if index not in reached:
                reached.add(index)
                stack.extend(self._producers.get(index, ()))
                stack.extend(self._written.get(self.rows[index][1], ()))
        led_to = {index for index in reached if leaf.index in self._producers.get(index, ())}
        return self.sparse.gradient_rows(leaf, reached, led_to, keeps_graph)

    def hooked(self, roots: Iterable[int]) -> List[int]:
        """The tensors with hooks that a backward pass from these tensors leads to."""
        starts = list(roots)
        return [index for index, hooks in self.hooks.items() if hooks and index < len(self.rows) and self.is_reached(index, starts)]

    def is_reached(self, target: int, roots: Iterable[int]) -> bool:
        """Whether a backward pass from these tensors leads to a tensor."""
        stack, seen = list(roots), set()
        while stack:
            index = stack.pop()
            if index == target:
                return True
            if index not in seen:
                seen.add(index)
                stack.extend(self._producers.get(index, ()))
                stack.extend(self._written.get(self.rows[index][1], ()))
        return False

    def gradient_like(self, tensor: torch.Tensor, info: Info, rows: Optional[Rows] = None) -> torch.Tensor:
        """A new gradient of a tensor, on the device on which PyTorch lets it have one here; a sparse one where it has rows."""
        kind = self.session.kinds.get(info.kind.dtype, info.kind.shape, info.kind.stride, False)
        with torch._C.DisableTorchFunction(), self.paused():
            gradient = kind.zeros() if tensor.device.type == "cpu" else kind.result()
        adopted = self.adopt(gradient, kind, None, 0, info.host, real=tensor.device.type == "cpu")
        if rows is not None:
            self.sparse.mark(adopted, rows)
        return gradient

    # -- random numbers -----------------------------------------------------------------------------------------------

    def drawing(self, operator: Operator, kwargs: Dict[str, Any], host: bool) -> ContextManager[None]:
        return self.random_numbers.drawn(host, kwargs.get("generator")) if operator.random else nullcontext()

    def not_drawn(self, operator: Operator, kwargs: Dict[str, Any], outcome: Outcome, infos: Sequence[Info]) -> None:
        item = outcome.items[0]
        if item[0] not in (NEW, SAME):
            return
        kind = item[1] if item[0] == NEW else infos[item[1]].kind
        dense = kind.stride == contiguous_stride(kind.shape)
        if not self.random_numbers.left_out(base_name(operator.qualified), numel(kind.shape), kind.dtype, dense, kwargs.get("generator")):
            self.cause(f"{self.where()}: {operator.name} on the host is not computed, so that random numbers after it may be others")

    # -- values -------------------------------------------------------------------------------------------------------

    def assume(self, text: str) -> None:
        """A value is not computed. That matters only where the script's way depends on it, which `decides` finds."""
        self.stand_ins[text] = self.stand_ins.get(text, 0) + 1

    def assume_size(self, text: str, values: str) -> None:
        """Blocks of other sizes fit otherwise into free ones. Each line is named once, with the first share that it has."""
        self.assume(text)
        self.has_assumed_sizes = True
        if not any(cause.startswith(f"{text};") for cause in self.causes):
            self.cause(f"{text}; {values}")

    def follows(self, source: int, given: Any, what: str = "the way on") -> None:
        """Values of the script's own data are its own."""

    def _assumed(self, operator: Operator, infos: List[Info]) -> Any:
        value = super()._assumed(operator, infos)
        if isinstance(value, float):
            # A loss that falls a little with each look: what waits for an improvement goes on.
            return value / (1.0 + 1e-4 * sum(self.stand_ins.values()))
        return value

    def assumed_values(self, kind: Kind) -> torch.Tensor:
        """Not negative: errors, probabilities and distances are not, and NumPy makes NaN of their roots otherwise."""
        values = super().assumed_values(kind)
        return values.abs() if kind.dtype.is_floating_point else values

    def _after_write(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: List[Info], known: bool) -> None:
        before = infos[-2].storage.known if operator.qualified == _FINDS_INFINITIES else None
        super()._after_write(operator, args, kwargs, infos, known)
        if before is not None:
            infos[-2].storage.known = before

    def has_reached_gpu(self) -> bool:
        """Whether a tensor was ever on the GPU."""
        return any(not row[3] & HOST for row in self.rows)

    def reference(self, tensor: torch.Tensor) -> Optional["weakref.ref[torch.Tensor]"]:
        """A reference that does not keep the tensor alive."""
        info = self.infos.get(id(tensor))
        return info.reference if info is not None else None


def _tensors(values: Iterable[Any]) -> Iterable[torch.Tensor]:
    """The tensors among arguments, those in lists too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
