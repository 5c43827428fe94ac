"""L-BFGS asks for values of the gradient after each of its iterations. They are not computed: it is taken to go on to the last one."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from ..patches import Patches
from .recorder import ScriptRecorder

_TOLERANCES = ("tolerance_grad", "tolerance_change")


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has no tolerance be reached."""
    original: Callable[..., Any] = torch.optim.LBFGS.step

    @functools.wraps(original)
    def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        group = optimizer.param_groups[0]
        before = {name: group[name] for name in _TOLERANCES}
        recorder.session.note(f"{recorder.where()}: L-BFGS is taken to go on for all its {group['max_iter']} iterations")
        group.update(dict.fromkeys(_TOLERANCES, float("-inf")))
        try:
            return original(optimizer, *args, **kwargs)
        finally:
            group.update(before)

    patches.set(torch.optim.LBFGS, "step", step)
