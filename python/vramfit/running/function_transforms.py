"""``torch.func``: its layers build real graphs, in which the stand-ins of all tensors have to be of one kind, the one without values."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.utils._pytree import tree_map_only

from ..patches import Patches
from ..transforms import in_a_transform
from .recorder import ScriptRecorder


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Has the outermost transform take its floating-point arguments without their values."""
    from torch._functorch import apis, eager_transforms

    def without_values(tensor: torch.Tensor) -> torch.Tensor:
        info = recorder.info_of(tensor)
        if not info.known or not info.kind.dtype.is_floating_point:
            return tensor
        info.storage.known = False
        return tensor.detach()

    def prepared(values: Any) -> Any:
        return values if in_a_transform() else tree_map_only(torch.Tensor, without_values, values)

    grad: Callable[..., Any] = eager_transforms.grad_and_value_impl
    vmap: Callable[..., Any] = apis.vmap_impl

    def grad_and_value_impl(func: Any, argnums: Any, has_aux: bool, args: Sequence[Any], kwargs: Any) -> Any:
        return grad(func, argnums, has_aux, prepared(args), prepared(kwargs))

    def vmap_impl(func: Any, in_dims: Any, out_dims: Any, randomness: Any, chunk_size: Any, *args: Any, **kwargs: Any) -> Any:
        return vmap(func, in_dims, out_dims, randomness, chunk_size, *prepared(args), **prepared(kwargs))

    patches.set(eager_transforms, "grad_and_value_impl", grad_and_value_impl)
    patches.set(apis, "vmap_impl", vmap_impl)
