"""The whole model in a smaller dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, List

import torch

from ...devices import is_on_gpu
from ...errors import PlanError
from ..undoing import Undo
from .trick import LiveTrick

if TYPE_CHECKING:
    from ..applied import Applied


class SmallerDtype(LiveTrick):
    """Casts the model, and floating-point inputs with it. Undo restores the dtypes, the optimizer's too, but the weights stay rounded."""

    def check(self, applied: "Applied") -> None:
        if applied.plan.parts.dtype is not None and applied.optimizer is not None and applied.optimizer.state:
            raise PlanError("optimizer: found state of steps before the model is cast, needed a fresh optimizer", "apply the plan before the first step")

    def apply(self, applied: "Applied") -> List[Undo]:
        name = applied.plan.parts.dtype
        if name is None:
            return []
        model, dtype = applied.model, getattr(torch, name)
        before = [(tensor, tensor.dtype) for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
        dtypes = {id(tensor): old for tensor, old in before}
        buffers = [(name, dtypes[id(tensor)]) for name, tensor in model.named_buffers() if id(tensor) in dtypes]
        device = applied.device
        if is_on_gpu(model):
            # The printed code casts on the CPU. A cast on the GPU would leave the cached blocks of the larger weights.
            model.to("cpu")
            torch.cuda.empty_cache()
        model.to(dtype).to(device)
        applied.input_dtype = dtype

        def back() -> None:
            for tensor, old in before:
                tensor.data = tensor.data.to(old)
                if isinstance(applied.optimizer, torch.optim.Optimizer):
                    # What it has kept since has the weights' type.
                    state = applied.optimizer.state.get(tensor, {})
                    state.update({key: value.to(old) for key, value in state.items() if isinstance(value, torch.Tensor) and value.dtype is dtype})
            # `to` replaces buffers instead of changing them.
            for name, old in buffers:
                owner, _, last = name.rpartition(".")
                holder = model.get_submodule(owner)
                setattr(holder, last, getattr(holder, last).to(old))

        return [back]
