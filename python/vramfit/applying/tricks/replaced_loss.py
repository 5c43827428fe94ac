"""A loss without whole logits, for causal language models of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Tuple

import torch
from torch.utils.checkpoint import checkpoint

from ...errors import PlanError
from ..undoing import Undo, module_of, set_attribute
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class ReplacedLoss(LiveTrick):
    """Lets the head return what it is given, and computes the loss from that: in chunks, or by liger-kernel."""

    def check(self, applied: "Applied") -> None:
        replaced = applied.plan.parts.replaced_loss
        if replaced is not None and not hasattr(applied.model, "loss_function"):
            raise PlanError(
                f"{type(applied.model).__name__} has no loss_function, which the plan replaces", "apply the plan to the model it was made for, unwrapped",
            )

    def apply(self, applied: "Applied") -> List[Undo]:
        replaced = applied.plan.parts.replaced_loss
        if replaced is None:
            return []
        head: Any = module_of(applied.model, replaced["head"])
        compute = head.forward
        chunks = replaced["chunks"]
        function = _fused(head) if chunks is None else _chunked(compute, chunks)
        return [
            set_attribute(head, "forward", lambda hidden: hidden),
            set_attribute(applied.model, "_loss_function", function),
        ]


def _rows(logits: torch.Tensor, labels: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The hidden states, which the head has returned as they are, and the labels of the next tokens."""
    return logits.flatten(0, 1), torch.nn.functional.pad(labels[..., 1:], (0, 1), value=-100).flatten()


def _chunked(compute_logits: Callable[[torch.Tensor], torch.Tensor], chunks: int) -> Callable[..., torch.Tensor]:
    def loss_of_chunk(hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = compute_logits(hidden).float()
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum")

    def chunked_loss(logits: torch.Tensor, labels: torch.Tensor, **_: Any) -> torch.Tensor:
        hidden, labels = _rows(logits, labels)
        parts = zip(hidden.chunk(chunks), labels.chunk(chunks))
        losses = [checkpoint(loss_of_chunk, *part, use_reentrant=False) for part in parts]
        return torch.stack(losses).sum() / (labels != -100).sum()

    return chunked_loss


def _fused(head: Any) -> Callable[..., torch.Tensor]:
    try:
        from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss
    except ImportError:
        raise PlanError("liger-kernel is not installed, whose loss the plan uses", "pip install liger-kernel") from None
    function = LigerFusedLinearCrossEntropyLoss()

    def fused_loss(logits: torch.Tensor, labels: torch.Tensor, **_: Any) -> torch.Tensor:
        hidden, labels = _rows(logits, labels)
        loss: torch.Tensor = function(head.weight, hidden, labels, head.bias)
        return loss

    return fused_loss
