"""What the recorder needs to know of each operator, read once from PyTorch's schemas."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch
from torch._ops import OpOverload

from .dtypes import check_of

# Composites whose inner calls are recorded instead of themselves: they make the same calls on every device.
OPENED: FrozenSet[str] = frozenset(f"aten::{name}" for name in """
einsum tensordot chain_matmul linalg_multi_dot pad meshgrid meshgrid.indexing inner kron cov cartesian_prod block_diag
nll_loss_nd rms_norm alpha_dropout alpha_dropout_ feature_alpha_dropout feature_alpha_dropout_ argsort argsort.stable argwhere
atleast_3d bilinear cdist column_stack combinations corrcoef cosine_embedding_loss cosine_similarity cross cumulative_trapezoid.dx
cumulative_trapezoid.x diag diagflat dsplit.array dsplit.int dstack embedding_bag embedding_bag.padding_idx fliplr flipud
fill_diagonal_ float_power.Scalar float_power.Tensor_Scalar float_power.Tensor_Tensor frobenius_norm.dim ger gradient.scalarint
hinge_embedding_loss hsplit.array hsplit.int hstack isclose margin_ranking_loss matrix_power msort multilabel_margin_loss nanmean
narrow.Tensor nonzero_numpy norm_except_dim outer pad_sequence pairwise_distance poisson_nll_loss ravel
repeat_interleave.self_Tensor reshape_as row_stack std_mean std_mean.dim tensor_split.indices
tensor_split.tensor_indices_or_sections trapezoid.dx trapezoid.x triplet_margin_loss vander var_mean var_mean.dim vsplit.array
vsplit.int vstack atleast_1d.Sequence atleast_2d.Sequence atleast_3d.Sequence linalg_norm linalg_norm.ord_str linalg_vecdot
linalg_matrix_norm linalg_matrix_norm.str_ord _pad_circular adaptive_max_pool1d _convolution_mode where
""".split())
# Composites that are never opened, not even under autocast: CUDA runs them with a library or its own kernel. Inside istft only the window
# may be cast, and it refuses a window with values beside a spectrum without.
NEVER_OPENED = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu", "aten::_fused_rms_norm", "aten::istft")
# Operators that return a value to Python; on a GPU they wait for it.
READERS: FrozenSet[str] = frozenset({
    "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal", "aten::allclose",
})
# The results for ordinary, finite values.
FINITE: Dict[str, bool] = {
    "aten::isinf": False, "aten::isnan": False, "aten::isposinf": False, "aten::isneginf": False, "aten::isfinite": True,
}
# The size of the result depends on values, though PyTorch has no tag for it. The first has no shape rule at all.
_DYNAMIC: FrozenSet[str] = frozenset({"torchvision::nms"})
SIZED_BY_VALUES: FrozenSet[str] = frozenset({"aten::_pack_padded_sequence", "aten::_pad_packed_sequence", "aten::bincount"})
# The argument that says the size itself, if it is neither None nor negative.
_SIZES_GIVEN: Dict[str, str] = {"aten::one_hot": "num_classes", "aten::repeat_interleave": "output_size"}
_CONVOLUTIONS: FrozenSet[str] = frozenset(f"aten::conv{rank}d{how}" for rank in (1, 2, 3) for how in ("", ".padding"))
_COPIES = ("aten::to.", "aten::_to_copy")
_MEMORY_FORMATS = ("contiguous", "preserve", "channels_last", "channels_last_3d")
_ENUMERATIONS = {"memory_format": _MEMORY_FORMATS}


def base_name(qualified: str) -> str:
    """An operator's name without its overload."""
    return qualified.split(".")[0]


class Operator:
    """One operator overload: its arguments, and how the recorder has to treat it."""

    __slots__ = (
        "overload", "name", "qualified", "arguments", "defaults", "count", "positional", "device", "writes", "reshapes",
        "dynamic", "random", "empty", "copies", "reads", "finite", "opened", "composite", "index", "keywords", "detaches", "sizes",
        "check", "like",
    )

    def __init__(self, overload: OpOverload) -> None:
        schema = overload._schema
        self.overload = overload
        self.qualified = overload._name
        self.name = str(overload)
        self.arguments: List[str] = [argument.name for argument in schema.arguments]
        self.defaults: List[Any] = [
            encode_default(argument.name, argument.default_value) if argument.has_default_value() else None
            for argument in schema.arguments
        ]
        self.keywords: List[str] = [argument.name for argument in schema.arguments if argument.kwarg_only]
        self.count = len(self.arguments)
        self.positional = self.count - len(self.keywords)
        self.device: Optional[int] = self.arguments.index("device") if "device" in self.arguments else None
        self.writes: Tuple[int, ...] = tuple(
            at for at, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        tags = overload.tags
        self.reshapes = torch.Tag.inplace_view in tags
        self.dynamic = torch.Tag.dynamic_output_shape in tags or self.qualified in _DYNAMIC
        # Whether the size of its result depends on values.
        self.sizes = self.dynamic or base_name(self.qualified) in SIZED_BY_VALUES
        self.random = torch.Tag.nondeterministic_seeded in tags
        base = base_name(self.qualified)
        # Creates a tensor on the device of its first argument by default.
        self.like = base.startswith("aten::new_") or base.endswith("_like")
        self.empty = base in {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}
        self.copies = self.qualified.startswith(_COPIES)
        self.reads = base in READERS
        self.finite: Optional[bool] = FINITE.get(base)
        # PyTorch's own C++ composite, not a decomposition written in Python for its compilers.
        self.composite = base not in NEVER_OPENED and torch._C._dispatch_has_kernel_for_dispatch_key(self.qualified, "CompositeImplicitAutograd")
        self.opened = self.composite and self.qualified in OPENED
        self.detaches = base in ("aten::detach", "aten::detach_")
        self.check = check_of(self.qualified)
        self.index = -1

    def is_sized_by_values(self, args: Sequence[Any], kwargs: Dict[str, Any]) -> bool:
        """Whether the size of the result of a call depends on values: no argument says it."""
        given = _SIZES_GIVEN.get(base_name(self.qualified)) if self.sizes else None
        if given is None or given not in self.arguments:
            return self.sizes
        at = self.arguments.index(given)
        size = args[at] if at < len(args) else kwargs.get(given)
        return size is None or size < 0

    def open(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the composite's own implementation, so that its inner calls are seen."""
        return self.overload._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def opens_here(operator: Operator, encoded: Sequence[Any], infos: Sequence[Any]) -> bool:
    """Whether a composite that usually stays whole is opened: cross entropy that runs as many small steps, convolutions that pad first."""
    if operator.qualified in _CONVOLUTIONS:
        return _pads_or_batches(encoded, infos)
    if operator.qualified != "aten::cross_entropy_loss":
        return False
    weighted, smoothed, mean = encoded[2] is not None, bool(encoded[5]), encoded[3] == 1
    probable = infos[1].kind.dtype.is_floating_point
    if weighted and smoothed and mean and not probable:
        return False  # it selects the valid classes, which meta tensors do in another way
    return bool(weighted + smoothed + probable > 1)


def _pads_or_batches(encoded: Sequence[Any], infos: Sequence[Any]) -> bool:
    """Whether a convolution makes several calls: for a single sample without a batch, or with asymmetric padding."""
    image, weight = infos[0].kind.shape, infos[1].kind.shape
    if len(image) < len(weight):
        return True
    padding, dilation = encoded[4], encoded[5]
    if padding != {"string": "same"}:
        return False
    steps = dilation if isinstance(dilation, (list, tuple)) else [dilation]
    steps = list(steps) * (len(weight) - 2) if len(steps) == 1 else steps
    return any(step * (side - 1) % 2 for step, side in zip(steps, weight[2:]))


def encode_default(name: str, value: Any) -> Any:
    """A schema's default value in the file's encoding."""
    if name in _ENUMERATIONS and type(value) is int:
        return {name: _ENUMERATIONS[name][value]}
    if isinstance(value, (list, tuple)):
        return tuple(value)
    if isinstance(value, str):
        return {"string": value}
    return value


_SHORT: Dict[Any, Dict[str, str]] = {}


def encode_word(value: Any) -> Any:
    """A dtype, layout, memory format or string in the file's encoding: a small tagged object."""
    word = _SHORT.get(value) if not isinstance(value, str) else None
    if word is None:
        if isinstance(value, str):
            return {"string": value}
        if isinstance(value, torch.dtype):
            word = {"dtype": str(value).replace("torch.", "")}
        elif isinstance(value, torch.memory_format):
            word = {"memory_format": str(value).replace("torch.", "").replace("_format", "")}
        elif isinstance(value, torch.layout):
            word = {"layout": str(value).replace("torch.", "")}
        elif isinstance(value, torch.Generator):
            return {"generator": True}
        else:
            return {"other": type(value).__name__}
        _SHORT[value] = word
    return word
