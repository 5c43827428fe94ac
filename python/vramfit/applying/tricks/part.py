"""A part of a live optimizer, which updates some of its weights, or copies of them."""

from __future__ import annotations

import collections
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch


class Part:
    """Steps some weights of an optimizer as the whole would.

    It is an optimizer of the same class. It has the whole's state for these weights, so that ``state_dict()`` of the whole goes on being
    right, and follows what learning-rate schedulers and users change in the whole's groups. The state of copies on the CPU
    moves there, and back with `give_back`.
    """

    def __init__(
        self, whole: torch.optim.Optimizer, groups: Sequence[Tuple[Dict[str, Any], List[torch.Tensor]]],
        copies: Dict[torch.Tensor, torch.Tensor],
    ) -> None:
        self.whole = whole
        self.copies = copies
        self.optimizer: Any = object.__new__(type(whole))
        # Schedulers put a `step` of their own on the whole, which would step all of it.
        vars(self.optimizer).update({name: value for name, value in vars(whole).items() if name != "step"})
        self.optimizer.param_groups = [dict(group, params=[copies.get(weight, weight) for weight in weights]) for group, weights in groups]
        self._groups = groups
        self._followed = [(own, group, dict(group)) for own, (group, _) in zip(self.optimizer.param_groups, groups)]
        if copies:
            self.optimizer.state = collections.defaultdict(dict)
            self._move_state(whole, self.optimizer, lambda weight: (weight, copies[weight]))

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """The groups, with these weights only."""
        groups: List[Dict[str, Any]] = self.optimizer.param_groups
        return groups

    def step(self) -> None:
        """Updates these weights, with the options that the whole has now."""
        for own, group, seen in self._followed:
            for name, value in group.items():
                if name != "params" and seen.get(name) is not value:
                    own[name] = seen[name] = value
        self.optimizer.step()
        # Else a scheduler warns that no step came before its own.
        setattr(self.whole, "_opt_called", True)

    def zero_grad(self) -> None:
        """Frees the gradients of these weights."""
        self.optimizer.zero_grad()

    def give_back(self) -> None:
        """Moves the state of copies back to the whole."""
        if self.copies:
            self._move_state(self.optimizer, self.whole, lambda weight: (self.copies[weight], weight))

    def _move_state(self, source: Any, target: Any, ends: Callable[[torch.Tensor], Tuple[torch.Tensor, torch.Tensor]]) -> None:
        for group, weights in self._groups:
            # Fused kernels have their step counters beside the weights, the others in the CPU's memory.
            has_counters_there = bool(group.get("fused") or group.get("capturable"))
            for weight in weights:
                start, end = ends(weight)
                state = source.state.pop(start, None)
                if state is None:
                    continue
                for name, value in state.items():
                    if isinstance(value, torch.Tensor):
                        state[name] = value.to(end.device if value.dim() or has_counters_there else "cpu")
                target.state[end] = state
