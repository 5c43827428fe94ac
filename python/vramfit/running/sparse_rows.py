"""Which tensors of a script are sparse, and which rows they have."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..operators import Operator, base_name
from ..tensors import Info, numel

# The places of the indices, of the index that has no gradient, and of `sparse` among the arguments of operators that look up rows.
_LOOKUPS: Dict[str, Tuple[int, int, int]] = {"aten::embedding": (1, 2, 4), "aten::_embedding_bag": (1, 8, 5)}
# Operators whose result has the rows of its first argument.
_KEEP_ROWS = ("aten::clone", "aten::detach", "aten::mul", "aten::neg", "aten::_foreach_neg")
_ADD = ("aten::add_", "aten::_foreach_add_")
# What operators on lists call for each tensor where one of them is sparse.
_ONE_BY_ONE = {"aten::_foreach_norm": "aten::linalg_vector_norm"}


class Rows:
    """The rows of a sparse tensor: how many there are, and which, where their numbers are known."""

    def __init__(self, count: int, known: Optional[Sequence[torch.Tensor]], coalesced: bool = False, certain: bool = True) -> None:
        self.count = count
        # Whether a run on a GPU would have the same.
        self.certain = certain
        self.known = None if known is None else list(known)
        self.coalesced = coalesced or count < 2

    def copy(self) -> "Rows":
        """The same rows, to be changed apart."""
        return Rows(self.count, self.known, self.coalesced, self.certain)

    def add(self, other: "Rows") -> None:
        """Takes the rows of another tensor too: they stand one after the other."""
        if not other.count:
            return
        self.coalesced = other.coalesced and not self.count
        self.known = None if self.known is None or other.known is None else self.known + other.known
        self.certain = self.certain and other.certain
        self.count += other.count

    def clear(self) -> None:
        """What ``zero_()`` does."""
        self.count, self.known, self.coalesced = 0, [], True

    def numbers(self) -> Optional[torch.Tensor]:
        """The numbers of the rows, one after the other, where they are known."""
        if self.known is None:
            return None
        return torch.cat([part.reshape(-1) for part in self.known]) if self.known else torch.zeros(0, dtype=torch.int64, device="cpu")


class Lookup(NamedTuple):
    """A call that looked up rows of a table, for a sparse gradient."""

    result: int
    rows: Rows


class SparseTensors:
    """Which stand-ins are sparse, by number."""

    def __init__(self, cause: Callable[[str], None], where: Callable[[], str]) -> None:
        self._cause, self._where = cause, where
        self._rows: Dict[int, Rows] = {}
        # The numbers of tensors that hold the indices of a sparse one, with its rows.
        self._indices: Dict[int, Rows] = {}
        # For each table, the calls whose graph is still there.
        self._lookups: Dict[int, List[Lookup]] = {}

    def of(self, info: Optional[Info]) -> Optional[Rows]:
        """The rows of the sparse tensor with this record, None for others."""
        return None if info is None else self._rows.get(info.index)

    def with_indices(self, info: Optional[Info]) -> Optional[Rows]:
        """The rows of the sparse tensor whose indices these are."""
        return None if info is None else self._indices.get(info.index)

    def mark(self, info: Info, rows: Rows) -> None:
        """From now on this stand-in is a sparse tensor."""
        self._rows[info.index] = rows

    def mark_indices(self, info: Info, rows: Rows) -> None:
        """This tensor holds the indices of a sparse one."""
        self._indices[info.index] = rows

    def forget(self, index: int) -> None:
        """A tensor is gone."""
        self._rows.pop(index, None)
        self._indices.pop(index, None)

    @property
    def has_any(self) -> bool:
        """Whether any tensor is sparse now."""
        return bool(self._rows)

    def check(self, operator: Operator, infos: Sequence[Info]) -> None:
        """Refuses what PyTorch has no kernel for."""
        if not any(info.index in self._rows for info in infos):
            return
        base = base_name(operator.qualified)
        name = _ONE_BY_ONE.get(base, operator.qualified)
        if (base.startswith("aten::_foreach") and base not in _ONE_BY_ONE) or torch.version.cuda is None:
            return
        keys = ("SparseCUDA", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
        if not any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys):
            raise NotImplementedError(f"Could not run '{name}' with arguments from the 'SparseCUDA' backend.")

    def called(self, operator: Operator, args: Sequence[Any], infos: Sequence[Info], results: Sequence[Optional[int]]) -> None:
        """A call was recorded."""
        base = base_name(operator.qualified)
        places = _LOOKUPS.get(base)
        if places is not None and results and results[0] is not None:
            self._looked_up(places, args, infos, results[0])
        if not self._rows:
            return
        rows = [self._rows.get(info.index) for info in infos]
        if not any(rows):
            return
        if base in _KEEP_ROWS:
            for one, result in zip(rows, results):
                if one is not None and result is not None:
                    self._rows[result] = one.copy()
        elif base in _ADD:
            half = len(rows) // 2
            for target, other in zip(rows[:half], rows[half:]):
                if target is not None and other is not None:
                    target.add(other)
        elif base == "aten::zero_" and rows[0] is not None:
            rows[0].clear()

    def _looked_up(self, places: Tuple[int, int, int], args: Sequence[Any], infos: Sequence[Info], result: int) -> None:
        indices, padding, sparse = places
        if not torch.is_grad_enabled() or len(args) <= sparse or not args[sparse] or not infos[0].kind.requires_grad:
            return
        info, tensor = infos[1], args[indices]
        # Without the object itself, which is freed when the script lets go of it.
        known = [tensor.detach()] if info.known else None
        left_out = args[padding] if len(args) > padding else -1
        if isinstance(left_out, int) and left_out >= 0 and (known is None or bool((known[0] == left_out).any())):
            self._cause(f"{self._where()}: padding_idx: the rows of that index are simulated as part of a sparse gradient, which they are not")
        self._lookups.setdefault(infos[0].index, []).append(Lookup(result, Rows(numel(info.kind.shape), known, certain=not info.storage.random)))

    def has_lookups(self, table: Info) -> bool:
        """Whether rows of this table were looked up for a sparse gradient."""
        return bool(self._lookups.get(table.index))

    def gradient_rows(self, table: Info, reached: Set[int], led_to: Set[int], keeps_graph: bool) -> Optional[Rows]:
        """The rows of the gradient that a backward pass gives a table, None where it is dense.

        The pass reaches some tensors, and the table leads to some of these.
        """
        lookups = self._lookups.get(table.index, [])
        found = [lookup for lookup in lookups if lookup.result in reached]
        if not keeps_graph:
            self._lookups[table.index] = [lookup for lookup in lookups if lookup.result not in reached]
        if not found or {lookup.result for lookup in found} != led_to:
            return None
        rows = found[0].rows.copy()
        for lookup in found[1:]:
            rows.add(lookup.rows)
        return rows
