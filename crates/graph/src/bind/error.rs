//! Every way binding can fail, one variant each.

use thiserror::Error;

use super::tensor::BYTES_LIMIT;
use crate::expression::EvaluateError;
use crate::select::SIZE_LIMIT;

/// Why a model cannot have these sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// There is no such variant.
    #[error("variant {found}: the model has {count}")]
    UnknownVariant {
        /// The number asked for.
        found: usize,
        /// How many there are.
        count: usize,
    },
    /// The sizes are those of another model.
    #[error("found {found} sizes, needed one for each of the model's {needed} symbols")]
    WrongSymbolCount {
        /// How many there are.
        found: usize,
        /// How many symbols there are.
        needed: usize,
    },
    /// A size below 1 or absurdly large.
    #[error("symbol `{symbol}`: found {found}, needed a size from 1 to {}", SIZE_LIMIT - 1)]
    SizeOutOfRange {
        /// The symbol.
        symbol: String,
        /// Its value.
        found: i64,
    },
    /// An expression has no value at these sizes.
    #[error("{place}: `{expression}` {source} with {sizes}")]
    NoValue {
        /// Where it stands.
        place: String,
        /// The expression.
        expression: String,
        /// Why it has none.
        source: EvaluateError,
        /// The symbols' values.
        sizes: String,
    },
    /// A size, stride or offset that comes out below zero.
    #[error("{place}: `{expression}` is {found} with {sizes}, needed 0 or more")]
    Negative {
        /// Where it stands.
        place: String,
        /// The expression.
        expression: String,
        /// Its value.
        found: i64,
        /// The symbols' values.
        sizes: String,
    },
    /// A tensor larger than any machine's memory.
    #[error("tensor {tensor}: {dtype} {shape} takes more than {BYTES_LIMIT} bytes with {sizes}")]
    TensorTooLarge {
        /// The tensor.
        tensor: usize,
        /// Its element type.
        dtype: &'static str,
        /// Its shape, with symbols.
        shape: String,
        /// The symbols' values.
        sizes: String,
    },
}

impl BindError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            BindError::UnknownVariant { .. } | BindError::WrongSymbolCount { .. } => None,
            BindError::SizeOutOfRange { .. } | BindError::TensorTooLarge { .. } => {
                Some("choose smaller sizes with --batch, --seq or --size")
            }
            BindError::NoValue { .. } | BindError::Negative { .. } => {
                Some("the model cannot run at these sizes; try sizes nearer to those it was captured at")
            }
        }
    }
}
