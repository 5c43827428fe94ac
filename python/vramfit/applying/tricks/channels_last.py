"""Images with their channels last in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

import torch

from ...devices import is_on_gpu
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class ChannelsLast(LiveTrick):
    """Gives weights and images of four dimensions other strides. Undo gives weights and buffers their own back."""

    def apply(self, applied: "Applied") -> List[Undo]:
        if not applied.plan.settings.get("channels_last", False):
            return []
        model, device = applied.model, applied.device
        before = [(tensor, tensor.stride()) for tensor in (*model.parameters(), *model.buffers()) if tensor.dim() == 4]
        if is_on_gpu(model):
            # The printed code does it on the CPU. On the GPU it would leave cached blocks of each weight.
            model.to("cpu")
            torch.cuda.empty_cache()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.to(device)
        applied.has_channels_last = True

        def back() -> None:
            for tensor, strides in before:
                data = torch.empty_strided(tuple(tensor.shape), strides, dtype=tensor.dtype, device=tensor.device)
                tensor.data = data.copy_(tensor.data)
            applied.has_channels_last = False

        return [back]
