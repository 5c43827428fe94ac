"""Sparse gradients, which are not simulated: embeddings get dense ones, and an optimizer that takes no others is refused."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch

from ..errors import VramfitError
from ..patches import Patches
from .function_mode import ScriptMode, _script_handles
from .recorder import ScriptRecorder

# The place of `sparse` among the arguments of torch.embedding.
_SPARSE = 4


@_script_handles(torch.embedding)
def _embedding(mode: ScriptMode, func: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    if kwargs.get("sparse") or (len(args) > _SPARSE and args[_SPARSE]):
        recorder = mode.recorder
        recorder.session.note(f"{recorder.where()}: sparse gradients of an embedding are simulated as dense ones, which are larger")
        recorder.cause("sparse gradients are simulated as dense ones")
    return func(*args, **kwargs)


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Refuses optimizers that take sparse gradients only."""

    def step(*_: Any, **__: Any) -> None:
        raise VramfitError(
            f"{recorder.where()}: found SparseAdam, needed an optimizer of dense gradients: sparse ones are not simulated",
            "for an upper bound, run the script with sparse=False and Adam",
        )

    patches.set(torch.optim.SparseAdam, "step", step)
