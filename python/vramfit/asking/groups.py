"""The groups of a live optimizer, as ``--optimizer-groups`` takes them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch


class Grouped(NamedTuple):
    """The groups' text, None where all weights are one group; and what is not modelled."""

    text: Optional[str]
    causes: Tuple[str, ...]


def grouped(groups: Sequence[Dict[str, Any]], model: Optional[torch.nn.Module], decays: Callable[[Dict[str, Any]], bool]) -> Grouped:
    """Numbers the weights of each group as ``model.parameters()`` does."""
    if model is None:
        causes = (f"optimizer: its {len(groups)} groups of parameters are simulated as one",) if len(groups) > 1 else ()
        return Grouped(None, causes)
    numbers = {id(parameter): number for number, parameter in enumerate(model.parameters())}
    trained = [numbers[id(parameter)] for parameter in model.parameters() if parameter.requires_grad]
    found: List[Tuple[bool, List[int]]] = []
    missed = 0
    for group in groups:
        # A weight without a gradient is never updated.
        held = [parameter for parameter in group["params"] if parameter.requires_grad]
        missed += sum(id(parameter) not in numbers for parameter in held)
        found.append((decays(group), [numbers[id(parameter)] for parameter in held if id(parameter) in numbers]))
    causes = (f"optimizer: {missed} of its parameters are not in the model, and are left out",) if missed else ()
    found = [(adds_decay, members) for adds_decay, members in found if members]
    if len(found) == 1 and found[0][1] == trained:
        return Grouped(None, causes)
    if not found:
        return Grouped(None, (*causes, "optimizer: it has none of the model's parameters, and is simulated with all"))
    return Grouped(";".join(("decay:" if adds_decay else "") + _ranges(members) for adds_decay, members in found), causes)


def _ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2,5``."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
