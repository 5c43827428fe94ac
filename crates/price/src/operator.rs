//! What an operator is to the clock: what kind of work it does, and what of it a checkpoint runs again.

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

/// What the clock knows of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operator {
    pub work: Work,
    pub keeps: Keeps,
    /// Whether it writes into its first argument.
    pub is_in_place: bool,
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
        Operator { work, keeps: keeps(plain), is_in_place }
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
