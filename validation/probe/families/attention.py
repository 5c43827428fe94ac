"""scaled_dot_product_attention: the four CUDA backends and PyTorch's own choice.

Tensors come as (batch, seq, heads, head_dim) and are transposed inside, as transformers does, or as
(batch, heads, seq, head_dim) in one piece.
"""

import contextlib
import functools

from specs import B, C, Family, X
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
    "default": None,
}
HEAD_DIMS = (32, 64, 80, 96, 128, 256)
LENGTHS = {"77": (2, 77), "128": (2, 128), "333": (3, 333), "1024": (4, 1024)}


def attend(query, key, value, mask=None, *, backend, transposed, **options):
    if transposed:
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
    chosen = BACKENDS[backend]
    with sdpa_kernel(chosen) if chosen else contextlib.nullcontext():
        output = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)
    return output.transpose(1, 2).contiguous() if transposed else output


def dtypes_of(backend):
    return ("bf16", "fp16") if backend in ("flash", "cudnn") else ("fp32", "bf16", "fp16")


def probes(backend):
    family = Family()
    dtypes = dtypes_of(backend)

    def add(name, sizes, dtypes=dtypes, transposed=True, **options):
        function = functools.partial(attend, backend=backend, transposed=transposed, **options)
        family.add(f"sdpa {backend} {name}", function, sizes, dtypes)

    for head_dim in HEAD_DIMS:
        for size, (batch, length) in LENGTHS.items():
            tensors = [X(batch, length, 3, head_dim)] * 3
            some = dtypes if size != "1024" else dtypes[:1] + dtypes[1:2]
            add(f"head {head_dim}", {size: tensors}, some)
            if head_dim in (64, 128):
                add(f"head {head_dim} causal", {size: tensors}, some, is_causal=True)
    for size, (batch, length) in LENGTHS.items():
        if size == "1024" and backend == "math":
            continue
        tensors = [X(batch, length, 4, 64)] * 3
        straight = [X(batch, 4, length, 64)] * 3
        add("straight", {size: straight}, transposed=False)
        add("straight causal", {size: straight}, transposed=False, is_causal=True)
        add("dropout", {size: tensors}, dropout_p=0.1)
        add("causal dropout", {size: tensors}, is_causal=True, dropout_p=0.1)
        add("boolean mask", {size: [*tensors, B(batch, 1, length, length)]})
        add("boolean mask keys", {size: [*tensors, B(batch, 1, 1, length)]})
        add("float mask", {size: [*tensors, C(batch, 1, length, length)]})
        add("float mask dropout", {size: [*tensors, C(batch, 1, length, length)]}, dropout_p=0.1)
        add("float mask one head", {size: [*tensors, C(1, 4, length, length)]})
        add("float mask with grad", {size: [*tensors, X(1, 4, length, length)]})
        grouped = [X(batch, length, 8, 64), X(batch, length, 2, 64), X(batch, length, 2, 64)]
        add("grouped", {size: grouped}, enable_gqa=True)
        add("grouped causal", {size: grouped}, enable_gqa=True, is_causal=True)
        cross = [X(batch, length, 4, 64), X(batch, length + 51, 4, 64), X(batch, length + 51, 4, 64)]
        add("cross", {size: cross})
        add("scale", {size: tensors}, scale=1.0)
    if backend == "default":
        mixed = {"333": [X(3, 333, 4, 64)] * 3}
        add("autocast", mixed, ("amp-bf16", "amp-fp16"))
        add("autocast causal", mixed, ("amp-bf16", "amp-fp16"), is_causal=True)
        one = {"one query": [X(3, 1, 4, 64), X(3, 333, 4, 64), X(3, 333, 4, 64)]}
        add("cross", one)
        odd = {"odd head": [X(3, 99, 3, 50)] * 3, "head 72": [X(3, 99, 3, 72)] * 3, "head 512": [X(3, 99, 3, 512)] * 3}
        add("head", odd)
        multi_head(family)
    return family.probes


def multi_head(family):
    """What nn.MultiheadAttention calls."""
    layer = {}

    def call(x, weight, bias, out_weight, out_bias):
        return functional.multi_head_attention_forward(
            x, x, x, x.shape[-1], 6, weight, bias, None, None, False, 0.1, out_weight, out_bias, need_weights=False
        )[0]

    from specs import P

    for size, (length, batch, width) in {"small": (7, 3, 96), "large": (321, 5, 384)}.items():
        layer[size] = [X(length, batch, width), P(3 * width, width), P(3 * width), P(width, width), P(width)]
    family.add("multi_head_attention_forward", call, layer, ("fp32", "bf16", "amp-bf16"))
