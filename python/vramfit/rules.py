"""Shape rules for the most frequent calls of networks.

PyTorch's meta kernels for these are written in Python and take milliseconds per call. A rule handles only the plain case
(contiguous arguments of one floating-point dtype); the meta kernel handles everything else. A test compares the two.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .tensors import Kind

Shape = Tuple[int, ...]
Rule = Callable[[Sequence[Any], Dict[str, Any], Sequence[Kind]], Optional[Shape]]
_RULES: Dict[str, Rule] = {}


def contiguous_stride(shape: Shape) -> Shape:
    """The strides of a contiguous tensor."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            _RULES[f"aten::{name}"] = rule
        return rule
    return register


def shape_of(qualified: str, args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    """The shape of the single new contiguous result, of the arguments' dtype; None if no rule applies."""
    rule = _RULES.get(qualified)
    if rule is None or not kinds:
        return None
    if not kinds[0].dtype.is_floating_point:
        return None
    if rule not in (_attention, _grouped) and any(kind.stride != contiguous_stride(kind.shape) for kind in kinds):
        return None
    return rule(args, kwargs, kinds)


def recurrent(qualified: str, args: Sequence[Any], kinds: Sequence[Kind]) -> Optional[Tuple[Tuple[Shape, Shape], ...]]:
    """Shapes and strides of the results of ``lstm``, ``gru`` and plain recurrent networks, whose meta kernels unroll all time steps."""
    name, _, overload = qualified.replace("aten::", "").partition(".")
    if name not in ("lstm", "gru", "rnn_tanh", "rnn_relu") or overload not in ("input", "data"):
        return None
    states = 2 if name == "lstm" else 1
    first_state = 1 if overload == "input" else 2
    flags = args[3 if overload == "input" else 4:]
    directions = 2 if flags[4] else 1
    hidden = kinds[first_state].shape[-1]
    source = kinds[0].shape
    shape = source[:-1] + (hidden * directions,)
    stride = contiguous_stride(shape)
    if overload == "input" and flags[5]:
        turned = contiguous_stride((shape[1], shape[0], shape[2]))
        stride = (turned[1], turned[0], turned[2])
    results = [(shape, stride)]
    for state in kinds[first_state:first_state + states]:
        results.append((state.shape, contiguous_stride(state.shape)))
    return tuple(results)


def _one_dtype(kinds: Sequence[Kind]) -> bool:
    return all(kind.dtype is kinds[0].dtype for kind in kinds)


@_rule(
    "relu", "gelu", "silu", "tanh", "sigmoid", "neg", "relu6", "hardswish", "hardsigmoid", "cos", "sin", "exp", "rsqrt", "sqrt", "log",
    "elu", "leaky_relu", "mish", "softplus", "abs", "hardtanh",
)
def _pointwise(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    return kinds[0].shape


@_rule("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor")
def _arithmetic(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    if len(kinds) == 1 and isinstance(args[1], (int, float)):
        return kinds[0].shape
    if len(kinds) != 2 or not _one_dtype(kinds):
        return None
    longer, shorter = kinds[0].shape, kinds[1].shape
    if len(longer) < len(shorter):
        longer, shorter = shorter, longer
    # Equal shapes, or one that is broadcast along the leading dimensions; both give a contiguous result.
    return longer if shorter == longer[len(longer) - len(shorter):] else None


@_rule("pow.Tensor_Scalar")
def _power(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    return kinds[0].shape if isinstance(args[1], (int, float)) else None


@_rule("dropout")
def _dropout(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    return kinds[0].shape if len(args) == 3 and args[2] is True and 0.0 < args[1] < 1.0 and 0 not in kinds[0].shape else None


@_rule("linear")
def _linear(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    if len(kinds) < 2 or not _one_dtype(kinds) or len(kinds[1].shape) != 2 or not kinds[0].shape:
        return None
    if kinds[0].shape[-1] != kinds[1].shape[1] or (len(kinds) == 3 and kinds[2].shape != kinds[1].shape[:1]):
        return None
    return kinds[0].shape[:-1] + (kinds[1].shape[0],)


@_rule("layer_norm")
def _layer_norm(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    normalized = tuple(args[1])
    if not _one_dtype(kinds) or kinds[0].shape[len(kinds[0].shape) - len(normalized):] != normalized:
        return None
    return kinds[0].shape


@_rule("batch_norm")
def _batch_norm(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    shape = kinds[0].shape
    if len(shape) < 2 or any(kind.shape != shape[1:2] for kind in kinds[1:]):
        return None
    return shape


@_rule("scaled_dot_product_attention")
def _attention(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    query, key, value = (kind.shape for kind in kinds[:3])
    if not _one_dtype(kinds[:3]) or not len(query) == len(key) == len(value) == 4 or query[0] != key[0] or key[:3] != value[:3]:
        return None
    if query[3] != key[3] or (query[1] != key[1] and not (kwargs.get("enable_gqa") and query[1] % key[1] == 0)):
        return None
    return query[:3] + value[3:]


@_rule("_grouped_mm")
def _grouped(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    # CUDA accepts any single dtype, the meta kernel only bfloat16.
    rows, matrices = kinds[0].shape, kinds[1].shape
    if not _one_dtype(kinds[:2]) or len(rows) != 2 or len(matrices) != 3 or rows[1] != matrices[1]:
        return None
    return (rows[0], matrices[2])


@_rule("cross_entropy_loss")
def _cross_entropy(args: Sequence[Any], kwargs: Dict[str, Any], kinds: Sequence[Kind]) -> Optional[Shape]:
    reduction = args[3] if len(args) > 3 else kwargs.get("reduction", 1)
    shape, target = kinds[0].shape, kinds[1]
    if target.dtype.is_floating_point or reduction == 0 or len(shape) < 2 or target.shape != shape[:1] + shape[2:]:
        return None
    return ()


# Operators whose memory depends on lengths, which they read on the host: the index of that argument.
LENGTHS: Dict[str, int] = {"aten::_pack_padded_sequence": 1, "aten::_pad_packed_sequence": 1, "aten::ctc_loss.Tensor": 3}


def lengths_as_numbers(qualified: str, values: Sequence[int]) -> Tuple[int, ...]:
    """What a capture records instead of a tensor of lengths.

    For packed sequences: time steps and sequences of each run of steps that as many sequences reach, from the lengths or from the number of
    sequences at each step. For ``ctc_loss``: the longest target.
    """
    if qualified == "aten::ctc_loss.Tensor":
        return (max(values, default=0),)
    counts = list(values)
    if qualified == "aten::_pack_padded_sequence":
        counts = [sum(length > step for length in values) for step in range(max(values, default=0))]
    runs: List[int] = []
    for count in counts:
        if runs and runs[-1] == count:
            runs[-2] += 1
        else:
            runs += [1, count]
    return tuple(runs)
