"""What all recordings of one capture share: operators, outcomes, source lines, the tables of the file."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Callable, Dict, Iterable, List, Optional, Tuple

import torch
from torch._ops import OpOverload

from .assumptions import Assumed
from .operators import Operator
from .outcomes import Outcomes
from .sources import Sources
from .tensors import Info, Kinds

# Tensors of the GPU that a pass left in a cache, by address. A cache outlives a capture, so the next one finds them too.
_LEFT: Dict[int, weakref.ref[torch.Tensor]] = {}


def _forgetting(address: int) -> Callable[["weakref.ref[torch.Tensor]"], None]:
    def forget(_: "weakref.ref[torch.Tensor]") -> None:
        _LEFT.pop(address, None)

    return forget


def leave(infos: Iterable[Info]) -> None:
    """Remembers tensors that outlive the pass that made them."""
    for info in infos:
        tensor = info.reference() if info.reference is not None else None
        if tensor is not None and not info.host:
            _LEFT[id(tensor)] = weakref.ref(tensor, _forgetting(id(tensor)))


def is_left(tensor: torch.Tensor) -> bool:
    """Whether an earlier pass made the tensor, on the GPU."""
    found = _LEFT.get(id(tensor))
    return found is not None and found() is tensor


class Session:
    """Tables that grow over the recordings of one capture."""

    def __init__(self, boundary: CodeType, share: Optional[float] = None) -> None:
        self.kinds = Kinds()
        self.outcomes = Outcomes(self.kinds, share)
        self.sources = Sources(boundary)
        self.operators: Dict[OpOverload, Operator] = {}
        self.rows: List[Tuple[str, List[str]]] = []
        self._pseudo: Dict[str, int] = {}
        self.notes: List[str] = []
        self.casts_inside: Dict[object, bool] = {}

    @property
    def assumed(self) -> Assumed:
        """Which values passes assume where their way depends on them."""
        return self.outcomes.assumed_values

    @assumed.setter
    def assumed(self, assumed: Assumed) -> None:
        self.outcomes.assumed_values = assumed

    def operator(self, overload: OpOverload) -> Operator:
        """The entry of an overload."""
        operator = self.operators.get(overload)
        if operator is None:
            operator = self.operators[overload] = Operator(overload)
        return operator

    def number(self, operator: Operator) -> int:
        """The operator's index in the file's table."""
        if operator.index < 0:
            operator.index = len(self.rows)
            self.rows.append((operator.name, operator.arguments))
        return operator.index

    def pseudo(self, name: str, arguments: List[str]) -> int:
        """The index of a call that is not a PyTorch operator (``vramfit.tensor`` and the like)."""
        number = self._pseudo.get(name)
        if number is None:
            number = self._pseudo[name] = len(self.rows)
            self.rows.append((name, arguments))
        return number

    def note(self, text: str) -> None:
        """Adds a note to the file, once."""
        if text not in self.notes:
            self.notes.append(text)
