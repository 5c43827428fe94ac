//! What an operator is to the clock: which measurement stands for it, and what of it a checkpoint runs again.

/// What decides how long a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// It moves memory.
    Memory,
    /// A product of matrices: the places of its two factors among the arguments.
    Product(usize, usize),
    /// Attention.
    Attention,
    /// A convolution.
    Convolution {
        /// Whether it is a transposed one.
        is_transposed: bool,
    },
    /// A recurrent network.
    Recurrent,
    /// Python waits for its result.
    Wait,
}

/// What autograd keeps of a call, which decides how far a checkpointed region runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Nothing but shapes.
    Nothing,
    /// Only what it was given: the region's second run ends before the last such call.
    Inputs,
    /// What it computes.
    Results,
}

/// How many elements a measurement of a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Those of the first argument or of the result, whichever has more.
    Larger,
    /// Those of the first argument.
    Input,
    /// Those of the result.
    Result,
    /// Half of those of the result: two equal inputs were measured.
    HalfResult,
}

/// What the clock knows of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub work: Work,
    pub keeps: Keeps,
    /// Whether it writes into its first argument.
    pub is_in_place: bool,
    /// The kernel that was measured; the call itself decides between some.
    pub kernel: &'static str,
    /// The row of what the CPU does, where it is not the kernel's.
    pub dispatch: &'static str,
    pub extent: Extent,
    /// Whether nobody measured anything like it, so that an addition stands for it.
    pub is_assumed: bool,
}

impl Operator {
    /// Of a name such as `aten.linear.default`.
    pub fn named(name: &str) -> Operator {
        let base = name.split('.').nth(1).unwrap_or(name);
        let is_in_place = base.ends_with('_') && !base.ends_with("__");
        let plain = base.trim_end_matches('_');
        let work = match plain {
            "linear" | "mm" | "bmm" | "matmul" => Work::Product(0, 1),
            "addmm" | "baddbmm" => Work::Product(1, 2),
            "scaled_dot_product_attention" => Work::Attention,
            "conv1d" | "conv2d" | "conv3d" => Work::Convolution { is_transposed: false },
            "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => Work::Convolution { is_transposed: true },
            "lstm" | "gru" | "rnn_tanh" | "rnn_relu" => Work::Recurrent,
            "is_nonzero" | "item" | "_local_scalar_dense" | "nonzero" => Work::Wait,
            _ => Work::Memory,
        };
        let found = kernel(plain);
        let (kernel, extent) = found.unwrap_or(("add", Extent::Larger));
        let is_assumed = found.is_none() && work == Work::Memory;
        Operator {
            work,
            keeps: keeps(plain),
            is_in_place,
            kernel,
            dispatch: dispatch(plain, kernel),
            extent,
            is_assumed,
        }
    }
}

/// The kernel that stands for an operator.
fn kernel(name: &str) -> Option<(&'static str, Extent)> {
    use Extent::{HalfResult, Input, Larger, Result};
    Some(match name {
        "add" | "sub" | "rsub" | "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "__and__" | "__or__" | "min" | "max"
        | "minimum" | "maximum" | "isinf" | "bitwise_and" | "logical_and" | "lerp" => ("add", Larger),
        "mul" => ("mul", Larger),
        "div" => ("div", Larger),
        "neg" | "abs" | "clamp" | "bitwise_not" | "logical_not" | "sign" => ("neg", Larger),
        "pow" | "square" => ("pow", Larger),
        "rsqrt" | "sqrt" | "log" | "reciprocal" => ("rsqrt", Larger),
        "cos" | "sin" => ("cos", Larger),
        "exp" => ("exp", Larger),
        "tanh" => ("tanh", Larger),
        "sigmoid" => ("sigmoid", Larger),
        "relu" | "threshold" => ("relu", Larger),
        "gelu" => ("gelu", Larger),
        "silu" => ("silu", Larger),
        "hardswish" | "hardsigmoid" | "hardtanh" | "leaky_relu" | "elu" | "selu" | "mish" | "softplus" | "prelu"
        | "log_sigmoid" | "relu6" | "celu" => ("hardswish", Larger),
        "masked_fill" | "where" => ("masked_fill", Larger),
        "dropout" | "bernoulli" | "feature_dropout" | "alpha_dropout" => ("dropout", Larger),
        "to" | "type_as" | "_to_copy" | "copy" => ("to_half", Larger),
        "layer_norm" => ("layer_norm", Larger),
        "rms_norm" => ("rms_norm", Larger),
        "softmax" => ("softmax", Larger),
        "log_softmax" => ("log_softmax", Larger),
        "nll_loss" | "nll_loss2d" | "nll_loss_nd" => ("nll_loss", Input),
        "cross_entropy_loss" => ("cross_entropy", Input),
        "mse_loss"
        | "l1_loss"
        | "smooth_l1_loss"
        | "huber_loss"
        | "binary_cross_entropy_with_logits"
        | "binary_cross_entropy" => ("mse_loss", Input),
        "embedding" => ("embedding", Result),
        "gather" | "index" | "index_select" | "take" => ("embedding", Result),
        "cat" | "stack" | "concat" => ("cat", HalfResult),
        "contiguous" | "clone" | "reshape" | "flatten" | "repeat" | "pixel_shuffle" | "unfold" | "im2col"
        | "repeat_interleave" => ("contiguous", Result),
        "constant_pad_nd" | "pad" | "reflection_pad2d" | "replication_pad2d" => ("pad", Input),
        "roll" | "flip" => ("roll", Larger),
        "sum" | "all" | "any" | "amax" | "amin" | "argmax" | "var" | "std" | "norm" => ("sum", Input),
        "mean" => ("mean_last", Input),
        "cumsum" | "diff" | "cumprod" => ("cumsum", Larger),
        "batch_norm" | "instance_norm" => ("batch_norm", Larger),
        "group_norm" => ("group_norm", Larger),
        "max_pool1d" | "max_pool2d" | "max_pool3d" | "adaptive_max_pool2d" => ("max_pool", Input),
        "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => ("avg_pool", Input),
        "adaptive_avg_pool1d" | "adaptive_avg_pool2d" | "adaptive_avg_pool3d" => ("adaptive_avg_pool", Input),
        "upsample_bilinear2d" | "upsample_bicubic2d" => ("upsample_bilinear", Input),
        "upsample_nearest1d" | "upsample_nearest2d" | "upsample_nearest3d" => ("upsample_nearest", Input),
        "zeros" | "ones" | "full" | "arange" | "new_ones" | "new_zeros" | "zeros_like" | "ones_like" | "full_like"
        | "empty" | "empty_like" | "rand" | "randn" | "rand_like" | "randn_like" | "fill" | "zero" | "eye" | "tril"
        | "triu" | "tensor" | "scalar" => ("zeros", Result),
        "view" | "transpose" | "permute" | "unsqueeze" | "squeeze" | "expand" | "select" | "slice" | "split"
        | "chunk" | "unbind" | "alias" | "detach" | "unflatten" | "swapaxes" | "movedim" | "broadcast_tensors"
        | "expand_as" | "view_as" | "t" | "narrow" | "is_nonzero" | "item" => ("contiguous", Result),
        _ => return None,
    })
}

/// The row of what the CPU does for an operator.
fn dispatch(name: &str, kernel: &'static str) -> &'static str {
    match name {
        "linear" => "linear",
        "matmul" | "bmm" | "mm" | "baddbmm" => "matmul",
        "addmm" => "addmm",
        "scaled_dot_product_attention" => "attention",
        "conv1d" | "conv2d" | "conv3d" => "conv2d",
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => "conv_transpose2d",
        "lstm" | "rnn_tanh" | "rnn_relu" => "lstm",
        "gru" => "gru",
        _ => kernel,
    }
}

/// The row of what the CPU does for an operator that launches nothing here.
pub(crate) fn view_dispatch(name: &str) -> &'static str {
    match name.split('.').nth(1).unwrap_or(name) {
        "reshape" => "reshape",
        "flatten" | "unflatten" => "flatten",
        "transpose" | "t" | "swapaxes" => "transpose",
        "permute" | "movedim" => "permute",
        "unsqueeze" => "unsqueeze",
        "squeeze" => "squeeze",
        "expand" | "expand_as" | "broadcast_tensors" => "expand",
        "select" => "select",
        "slice" | "split" | "chunk" | "unbind" | "narrow" => "slice",
        "contiguous" => "contiguous_no_copy",
        "to" | "type_as" => "to_no_copy",
        "dropout" => "dropout_off",
        _ => "view",
    }
}

/// From `derivatives.yaml`.
fn keeps(name: &str) -> Keeps {
    match name {
        "layer_norm"
        | "rms_norm"
        | "batch_norm"
        | "group_norm"
        | "instance_norm"
        | "dropout"
        | "softmax"
        | "log_softmax"
        | "scaled_dot_product_attention"
        | "relu"
        | "tanh"
        | "sigmoid"
        | "exp"
        | "rsqrt"
        | "sqrt"
        | "max_pool1d"
        | "max_pool2d"
        | "max_pool3d"
        | "cross_entropy_loss"
        | "nll_loss"
        | "nll_loss2d"
        | "lstm"
        | "gru"
        | "rnn_tanh"
        | "rnn_relu"
        | "elu"
        | "selu"
        | "amax"
        | "log_sigmoid" => Keeps::Results,
        "linear"
        | "mm"
        | "bmm"
        | "matmul"
        | "addmm"
        | "baddbmm"
        | "conv1d"
        | "conv2d"
        | "conv3d"
        | "conv_transpose1d"
        | "conv_transpose2d"
        | "conv_transpose3d"
        | "mul"
        | "div"
        | "pow"
        | "gelu"
        | "silu"
        | "mish"
        | "hardswish"
        | "hardsigmoid"
        | "hardtanh"
        | "leaky_relu"
        | "softplus"
        | "prelu"
        | "cos"
        | "sin"
        | "log"
        | "abs"
        | "embedding"
        | "where"
        | "masked_fill"
        | "index"
        | "gather"
        | "avg_pool2d"
        | "adaptive_avg_pool2d"
        | "clamp"
        | "mse_loss"
        | "binary_cross_entropy_with_logits" => Keeps::Inputs,
        _ => Keeps::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_write_in_place_are_what_they_are_otherwise() {
        let (plain, in_place) = (Operator::named("aten.relu.default"), Operator::named("aten.relu_.default"));
        assert_eq!(Operator { is_in_place: true, ..plain }, in_place);
        assert!(!Operator::named("aten.__and__.Tensor").is_in_place);
    }

    #[test]
    fn an_operator_nobody_measured_is_said_to_be_assumed() {
        assert!(Operator::named("aten.fft_fft.default").is_assumed);
        assert!(!Operator::named("aten.linear.default").is_assumed);
    }
}
