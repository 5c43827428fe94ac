"""Results that only a graph has: an operator that consists of others made them on the way to its own."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

_Way = Tuple[int, ...]


def place_in_graph(tensor: torch.Tensor, known: Dict[int, torch.Tensor]) -> Optional[Tuple[int, _Way]]:
    """Where a tensor's node is in the graph: the number of the known tensor that leads there on the shortest way, and that way, by
    places among the edges of each node. `None` for a tensor without a history."""
    with torch._C.DisableTorchFunction():
        wanted = tensor.grad_fn
        if wanted is None:
            return None
        starts = [(index, one.grad_fn) for index, one in known.items()]
    front: List[Tuple[int, _Way, Any]] = [(index, (), node) for index, node in starts if node is not None]
    seen = {node for _, _, node in front}
    while front:
        behind: List[Tuple[int, _Way, Any]] = []
        for index, way, node in front:
            if node is wanted:
                return index, way
            for place, (function, _) in enumerate(node.next_functions):
                if function is not None and function not in seen:
                    seen.add(function)
                    behind.append((index, (*way, place), function))
        front = behind
    return None
