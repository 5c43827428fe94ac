//! Which operators autocast runs in which precision, as CUDA's lists have it.

/// What autocast does with an operator's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Casts them to the lower precision.
    Lower,
    /// Casts them to single precision.
    Single,
    /// Asks for a result in single precision, by the operator's own argument.
    SingleByDtype,
    /// Casts them to the widest among them.
    Widest,
}

const LOWER: [&str; 31] = [
    "_convolution",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution",
    "prelu",
    "addmm",
    "addmv",
    "addr",
    "matmul",
    "einsum",
    "mm",
    "mv",
    "linalg_vecdot",
    "linear",
    "addbmm",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "linalg_multi_dot",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
    "lstm_cell",
    "gru_cell",
    "rnn_tanh_cell",
    "rnn_relu_cell",
    "scaled_dot_product_attention",
];

const SINGLE: [&str; 70] = [
    "acos",
    "asin",
    "cosh",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log10",
    "log2",
    "log1p",
    "reciprocal",
    "rsqrt",
    "sinh",
    "tan",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "pow.Scalar",
    "softplus",
    "layer_norm",
    "native_layer_norm",
    "group_norm",
    "frobenius_norm.dim",
    "nuclear_norm",
    "nuclear_norm.dim",
    "cosine_similarity",
    "poisson_nll_loss",
    "cosine_embedding_loss",
    "nll_loss",
    "nll_loss2d",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "mse_loss",
    "margin_ranking_loss",
    "multilabel_margin_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "multi_margin_loss",
    "binary_cross_entropy_with_logits",
    "dist",
    "pdist",
    "cdist",
    "renorm",
    "logsumexp",
    "upsample_nearest1d",
    "upsample_nearest1d.vec",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact1d.vec",
    "upsample_nearest2d",
    "upsample_nearest2d.vec",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact2d.vec",
    "upsample_nearest3d",
    "upsample_nearest3d.vec",
    "_upsample_nearest_exact3d",
    "_upsample_nearest_exact3d.vec",
    "upsample_linear1d",
    "upsample_linear1d.vec",
    "upsample_bilinear2d",
    "upsample_bilinear2d.vec",
    "_upsample_bilinear2d_aa",
    "_upsample_bilinear2d_aa.vec",
    "upsample_trilinear3d",
    "upsample_trilinear3d.vec",
    "upsample_bicubic2d",
    "upsample_bicubic2d.vec",
    "_upsample_bicubic2d_aa",
    "_upsample_bicubic2d_aa.vec",
];

const SINGLE_BY_DTYPE: [&str; 11] = [
    "prod",
    "prod.dim_int",
    "softmax.int",
    "log_softmax.int",
    "cumprod",
    "cumsum",
    "linalg_vector_norm",
    "linalg_matrix_norm",
    "linalg_matrix_norm.str_ord",
    "sum",
    "sum.dim_IntList",
];

const WIDEST: [&str; 11] = [
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "tensordot",
    "scatter_add",
];

/// What autocast does with an operator such as `aten.linear.default`; `None` where it leaves it alone.
pub(crate) fn policy(name: &str) -> Option<Policy> {
    let name = name.strip_prefix("aten.")?;
    let name = name.strip_suffix(".default").unwrap_or(name);
    let lists = [
        (&LOWER[..], Policy::Lower),
        (&SINGLE[..], Policy::Single),
        (&SINGLE_BY_DTYPE[..], Policy::SingleByDtype),
        (&WIDEST[..], Policy::Widest),
    ];
    lists.into_iter().find(|(names, _)| names.contains(&name)).map(|(_, policy)| policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_the_policies_of_cuda() {
        assert_eq!(policy("aten.linear.default"), Some(Policy::Lower));
        assert_eq!(policy("aten.layer_norm.default"), Some(Policy::Single));
        assert_eq!(policy("aten.softmax.int"), Some(Policy::SingleByDtype));
        assert_eq!(policy("aten.addcmul.default"), Some(Policy::Widest));
        assert_eq!(policy("aten.relu.default"), None);
        assert_eq!(policy("aten.pow.Tensor_Scalar"), Some(Policy::Single));
    }
}
