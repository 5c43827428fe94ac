"""The rules of CUDA's autocast: which operators run in the lower precision and which in float32.

The lists are those of ATen/autocast_mode.h; a test compares them with the installed header. For operators that only some
versions of torch have, the dispatcher is queried. CUDA's autocast ignores meta tensors, so the recorder makes the casts that
CUDA tensors would get.
"""

from __future__ import annotations

from typing import Dict, FrozenSet

import torch

LOWER, FLOAT32, FLOAT32_DTYPE, APPEND_DTYPE, PROMOTE, BANNED, FLOAT32_AND_BACK = range(7)

LOWER_PRECISION: FrozenSet[str] = frozenset("""
_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
_scaled_dot_product_flash_attention scaled_dot_product_attention
""".split())

FULL_PRECISION: FrozenSet[str] = frozenset("""
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim
cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
_upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d
upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
_upsample_bicubic2d_aa rms_norm
""".split())

FULL_PRECISION_BY_DTYPE: FrozenSet[str] = frozenset("""
prod prod.dim_int prod.dim_Dimname softmax.int softmax.Dimname log_softmax.int log_softmax.Dimname cumprod
cumprod.dimname cumsum cumsum.dimname linalg_vector_norm linalg_matrix_norm linalg_matrix_norm.str_ord sum
sum.dim_IntList sum.dim_DimnameList
""".split())

WIDEST: FrozenSet[str] = frozenset("""
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split())



def is_registered(name: str) -> bool:
    """Whether this torch has the operator and casts for it: ``rms_norm`` was added, named dimensions were removed."""
    try:
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "AutocastCUDA"))
    except RuntimeError:
        return False


POLICIES: Dict[str, int] = {}
for _names, _policy in (
    (LOWER_PRECISION, LOWER), (FULL_PRECISION, FLOAT32), (FULL_PRECISION_BY_DTYPE, FLOAT32_DTYPE),
    (frozenset({"norm.Scalar", "norm.ScalarOpt_dim", "norm.names_ScalarOpt_dim"}), APPEND_DTYPE),
    (WIDEST, PROMOTE), (frozenset({"binary_cross_entropy"}), BANNED),
):
    POLICIES.update((f"aten::{_name}", _policy) for _name in _names if is_registered(_name))
# torchvision's own. Results of the others are cast back to the type of the first argument.
POLICIES["torchvision::nms"] = FLOAT32
POLICIES.update((f"torchvision::{_name}", FLOAT32_AND_BACK) for _name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"))
