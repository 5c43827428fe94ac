"""The recording of a whole script: a recorder that also knows which tensors lead to which, and runs backward passes."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from ..operators import Operator
from ..recorder import Recorder
from ..session import Session
from ..tensors import Info, Kind, Storage

# Its second argument stays 0: no gradient is infinite.
_FINDS_INFINITIES = "aten::_amp_foreach_non_finite_check_and_unscale_"


class ScriptRecorder(Recorder):
    """The calls, frees, backward passes and updates of a script, in the order in which they happened."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        # The tensors that are alive, by number.
        self.live: Dict[int, Info] = {}
        # For each tensor that requires grad and is no leaf, the tensors that lead to it.
        self._producers: Dict[int, Tuple[int, ...]] = {}
        # For each storage that was written to, the tensors that were written into it.
        self._written: Dict[int, List[int]] = {}
        # Lines that read values that are not computed.
        self.stand_ins: Dict[str, int] = {}

    def adopt(self, tensor: torch.Tensor, kind: Kind, storage: Optional[Storage], offset: int, host: bool, **more: Any) -> Info:
        info = super().adopt(tensor, kind, storage, offset, host, **more)
        self.live[info.index] = info
        return info

    def _released(self, address: int, index: int) -> None:
        self.live.pop(index, None)
        super()._released(address, index)

    def free(self, index: int) -> None:
        self.live.pop(index, None)
        super().free(index)

    def pseudo(self, name: str, arguments: Dict[str, Any], results: Sequence[Optional[str]] = ()) -> None:
        """Records something that the script did and that is no operator."""
        number = self.session.pseudo(f"vramfit.{name}", list(arguments))
        self.steps.append(("call", number, list(arguments.values()), list(results), self.session.sources.here(), 0))

    def categorize(self, tensors: Iterable[torch.Tensor], what: str) -> None:
        """Records what memory is for."""
        names = tuple(info.name for info in (self.infos.get(id(tensor)) for tensor in tensors) if info is not None and not info.host)
        if names:
            self.pseudo("category", {"tensors": names, "what": {"string": what}})

    # -- the graph ----------------------------------------------------------------------------------------------------

    def called(self, operator: Operator, infos: Sequence[Info], names: Sequence[Optional[str]]) -> None:
        if not torch.is_grad_enabled() or operator.detaches:
            return
        inputs = tuple(info.index for info in infos if info.kind.requires_grad)
        if not inputs:
            return
        for name in names:
            if name is not None:
                self.leads_to(int(name[1:]), inputs)
        if operator.writes:
            self._written.setdefault(infos[0].storage.index, []).extend(inputs)

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
                if info is not None and info.kind.requires_grad:
                    leaves.append(info)
        return sorted(leaves, key=lambda info: info.index)

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

    def gradient_like(self, tensor: torch.Tensor, info: Info) -> torch.Tensor:
        """A new gradient of a tensor, on the device on which PyTorch lets it have one here."""
        kind = self.session.kinds.get(info.kind.dtype, info.kind.shape, info.kind.stride, False)
        with torch._C.DisableTorchFunction(), self.paused():
            gradient = kind.zeros() if tensor.device.type == "cpu" else kind.result()
        self.adopt(gradient, kind, None, 0, info.host, real=tensor.device.type == "cpu")
        return gradient

    # -- values -------------------------------------------------------------------------------------------------------

    def assume(self, text: str) -> None:
        """A value is not computed. That matters only where the script's way depends on it, which `decides` finds."""
        self.stand_ins[text] = self.stand_ins.get(text, 0) + 1

    def follows(self, source: int, given: Any, what: str = "the way on") -> None:
        """Values of the script's own data are its own."""

    def _assumed(self, operator: Operator, infos: List[Info]) -> Any:
        value = super()._assumed(operator, infos)
        if isinstance(value, float):
            # A loss that falls a little with each look: what waits for an improvement goes on.
            return value / (1.0 + 1e-4 * sum(self.stand_ins.values()))
        return value

    def _after_write(self, operator: Operator, args: Sequence[Any], kwargs: Dict[str, Any], infos: List[Info], known: bool) -> None:
        before = infos[-2].storage.known if operator.qualified == _FINDS_INFINITIES else None
        super()._after_write(operator, args, kwargs, infos, known)
        if before is not None:
            infos[-2].storage.known = before

    def reference(self, tensor: torch.Tensor) -> Optional["weakref.ref[torch.Tensor]"]:
        """A reference that does not keep the tensor alive."""
        info = self.infos.get(id(tensor))
        return info.reference if info is not None else None
