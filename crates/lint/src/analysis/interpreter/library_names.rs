//! What the names of PyTorch stand for: layers without parameters, factories, functions without gradients.

use ruff_python_ast::Expr;

/// Whether an expression has nothing but numbers in it.
pub(super) fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::NumberLiteral(_) | Expr::BooleanLiteral(_) => true,
        Expr::UnaryOp(operation) => is_constant(&operation.operand),
        Expr::List(list) => list.elts.iter().all(is_constant),
        Expr::Tuple(tuple) => tuple.elts.iter().all(is_constant),
        _ => false,
    }
}

/// Layers without parameters.
pub(super) fn has_no_parameters(layer: &str) -> bool {
    matches!(
        layer,
        "Softmax"
            | "Softmax2d"
            | "Softmin"
            | "LogSoftmax"
            | "Sigmoid"
            | "LogSigmoid"
            | "Hardsigmoid"
            | "Tanh"
            | "Hardtanh"
            | "ReLU"
            | "ReLU6"
            | "LeakyReLU"
            | "ELU"
            | "SELU"
            | "GELU"
            | "SiLU"
            | "Mish"
            | "Hardswish"
            | "Softplus"
            | "Softsign"
            | "Identity"
            | "Flatten"
            | "Unflatten"
            | "Upsample"
            | "Fold"
            | "Unfold"
            | "PixelShuffle"
            | "PixelUnshuffle"
            | "CosineSimilarity"
            | "PairwiseDistance"
    ) || layer.contains("Pool")
        || layer.contains("Pad")
        || layer.contains("Dropout")
}

/// Functions that create a tensor.
pub(crate) fn is_factory(path: &str) -> bool {
    matches!(
        path,
        "zeros"
            | "ones"
            | "full"
            | "empty"
            | "rand"
            | "randn"
            | "randint"
            | "arange"
            | "linspace"
            | "logspace"
            | "eye"
            | "randperm"
            | "normal"
            | "tensor"
            | "zeros_like"
            | "ones_like"
            | "rand_like"
            | "randn_like"
            | "empty_like"
            | "full_like"
            | "range"
            | "bernoulli"
    )
}

/// Functions whose results have no gradient.
pub(super) fn is_index_function(name: &str) -> bool {
    matches!(
        name,
        "argmax"
            | "argmin"
            | "argsort"
            | "eq"
            | "ne"
            | "gt"
            | "lt"
            | "ge"
            | "le"
            | "nonzero"
            | "isnan"
            | "isinf"
            | "isfinite"
            | "bincount"
            | "histc"
            | "unique"
            | "searchsorted"
            | "bucketize"
            | "logical_and"
            | "logical_or"
            | "logical_not"
            | "multinomial"
            | "count_nonzero"
            | "equal"
            | "allclose"
    )
}
