//! Why binding fails.

use thiserror::Error;

use crate::expression::EvaluateError;
use crate::model::Origin;
use crate::select::SIZE_LIMIT;

/// A tensor may have up to this many bytes (1 PiB), and so may a storage up to its last element: sums of some thousands
/// still fit 64 bits.
pub(super) const BYTES_LIMIT: u64 = 1 << 50;

/// Why a model cannot have these sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BindError {
    /// There is no such variant.
    #[error("variant {found}: the model has {count}")]
    UnknownVariant {
        /// The index that was asked for.
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
    /// A size outside the accepted range.
    #[error("symbol `{symbol}`: found {found}, needed a size from 1 to {}", SIZE_LIMIT - 1)]
    SizeOutOfRange {
        /// The symbol.
        symbol: String,
        /// Its value.
        found: i64,
    },
    /// An expression has no value at these sizes.
    #[error("{location}: `{expression}` {source}{sizes}")]
    NoValue {
        /// Where it is.
        location: String,
        /// The expression.
        expression: String,
        /// Why it has none.
        source: EvaluateError,
        /// The symbols' values.
        sizes: String,
        /// Whether it has one in the example.
        is_captured: bool,
        /// The kind of file.
        origin: Origin,
    },
    /// A size, stride or offset that comes out below zero.
    #[error("{location}: `{expression}` is {found}{sizes}, needed 0 or more")]
    Negative {
        /// Where it is.
        location: String,
        /// The expression.
        expression: String,
        /// Its value.
        found: i64,
        /// The symbols' values.
        sizes: String,
        /// Whether it is a size in the example.
        is_captured: bool,
        /// The kind of file.
        origin: Origin,
    },
    /// A tensor larger than any machine's memory.
    #[error("{location}: {dtype} {shape} takes more than {BYTES_LIMIT} bytes{sizes}")]
    TensorTooLarge {
        /// The tensor.
        location: String,
        /// Its element type.
        dtype: &'static str,
        /// Its shape, with symbols.
        shape: String,
        /// The symbols' values.
        sizes: String,
        /// Whether it depends on sizes that the user chose.
        is_chosen: bool,
        /// The kind of file.
        origin: Origin,
    },
    /// A tensor whose strides or offset span more than any machine's memory.
    #[error("{location}: {field} spread {dtype} {shape} over more than {BYTES_LIMIT} bytes{sizes}")]
    SpreadTooLarge {
        /// The tensor.
        location: String,
        /// Its strides or offset, with symbols.
        field: String,
        /// Its element type.
        dtype: &'static str,
        /// Its shape, with symbols.
        shape: String,
        /// The symbols' values.
        sizes: String,
        /// Whether it depends on sizes that the user chose.
        is_chosen: bool,
        /// The kind of file.
        origin: Origin,
    },
}

impl BindError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            BindError::UnknownVariant { .. } | BindError::WrongSymbolCount { .. } => None,
            BindError::TensorTooLarge { is_chosen: false, origin, .. }
            | BindError::SpreadTooLarge { is_chosen: false, origin, .. }
            | BindError::NoValue { is_captured: false, origin, .. }
            | BindError::Negative { is_captured: false, origin, .. } => Some(damaged(*origin)),
            BindError::SizeOutOfRange { .. } | BindError::TensorTooLarge { .. } | BindError::SpreadTooLarge { .. } => {
                Some("choose smaller sizes with --batch, --seq or --size".to_owned())
            }
            BindError::NoValue { .. } | BindError::Negative { .. } => {
                Some("the model cannot run at these sizes; try sizes nearer to those it was captured at".to_owned())
            }
        }
    }
}

/// The hint where no choice of sizes helps.
fn damaged(origin: Origin) -> String {
    format!("no choice of sizes fixes this: the file may be damaged or edited; {}", origin.made_again())
}
