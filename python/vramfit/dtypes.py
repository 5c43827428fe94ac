"""Calls that CUDA refuses because of the tensors' dtypes, though PyTorch's meta kernels accept them.

Without this, vramfit would estimate a training that fails at its first step: integers passed to ``nn.Linear``, a float64 batch
from NumPy, int32 class labels.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional, Sequence

import torch

from .errors import CaptureError
from .tensors import Info

Check = Callable[[Sequence[torch.dtype]], Optional[str]]
_CHECKS: Dict[str, Check] = {}
_HINTS: Dict[Check, str] = {}


def _check(hint: str, *names: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        _HINTS[check] = hint
        for name in names:
            _CHECKS[f"aten::{name}"] = check
        return check
    return register


def check_of(qualified: str) -> Optional[Check]:
    """The check of an operator's dtypes; None if its meta kernel checks enough."""
    return _CHECKS.get(qualified)


def refuse(check: Check, name: str, infos: Sequence[Info], where: Callable[[], str]) -> None:
    """Raises if CUDA would refuse the call."""
    if all(info.host for info in infos):
        return
    needed = check([info.kind.dtype for info in infos])
    if needed is not None:
        found = list(dict.fromkeys(str(info.kind.dtype).replace("torch.", "") for info in infos))
        raise CaptureError(f"{where()}: {name} was given {' and '.join(found)}, needed {needed}: PyTorch would refuse it", _HINTS[check])


_INPUT = "convert the input, such as x.float(), or hand over an example of the type that training uses"


@_check(
    _INPUT, "linear", "matmul", "mm", "bmm", "mv", "dot", "vdot", "addmm", "addmv", "addbmm", "baddbmm", "addr", "conv1d", "conv2d", "conv3d",
    "conv1d.padding", "conv2d.padding", "conv3d.padding", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
    "convolution", "_convolution", "scaled_dot_product_attention",
)
def _products(dtypes: Sequence[torch.dtype]) -> Optional[str]:
    first = dtypes[0]
    # An attention mask may be boolean.
    if all(dtype is first or (at > 2 and dtype is torch.bool) for at, dtype in enumerate(dtypes)) and (first.is_floating_point or first.is_complex):
        return None
    return "tensors of one floating-point type"


@_check(
    "convert the input, such as x.float()", "layer_norm", "native_layer_norm", "batch_norm", "group_norm", "instance_norm",
)
def _norms(dtypes: Sequence[torch.dtype]) -> Optional[str]:
    # In lower precision, statistics and weights may be float32.
    return "one type" if torch.float64 in dtypes and any(dtype is not torch.float64 for dtype in dtypes) else None


@_check("convert the indices: x.long()", "embedding")
def _indices(dtypes: Sequence[torch.dtype]) -> Optional[str]:
    return None if dtypes[1] in (torch.int64, torch.int32) else "int64 or int32 indices"


@_check("convert the targets: targets.long()", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d")
def _classes(dtypes: Sequence[torch.dtype]) -> Optional[str]:
    target = dtypes[1]
    return None if target.is_floating_point or target in (torch.int64, torch.uint8) else "int64 class numbers"


@_check("convert the targets: targets.float()", "binary_cross_entropy_with_logits", "binary_cross_entropy")
def _probabilities(dtypes: Sequence[torch.dtype]) -> Optional[str]:
    return None if dtypes[1].is_floating_point else "floating-point targets"
