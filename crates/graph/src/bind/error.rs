//! Every way binding can fail, one variant each.

use thiserror::Error;

use super::tensor::BYTES_LIMIT;
use crate::expression::EvaluateError;
use crate::model::Origin;
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
    #[error("{place}: `{expression}` {source}{sizes}")]
    NoValue {
        /// Where it stands.
        place: String,
        /// The expression.
        expression: String,
        /// Why it has none.
        source: EvaluateError,
        /// The symbols' values.
        sizes: String,
        /// Whether it has one in the example.
        is_captured: bool,
        /// What the file was made with.
        origin: Origin,
    },
    /// A size, stride or offset that comes out below zero.
    #[error("{place}: `{expression}` is {found}{sizes}, needed 0 or more")]
    Negative {
        /// Where it stands.
        place: String,
        /// The expression.
        expression: String,
        /// Its value.
        found: i64,
        /// The symbols' values.
        sizes: String,
        /// Whether it is a size in the example.
        is_captured: bool,
        /// What the file was made with.
        origin: Origin,
    },
    /// A tensor larger than any machine's memory.
    #[error("{place}: {dtype} {shape} takes more than {BYTES_LIMIT} bytes{sizes}")]
    TensorTooLarge {
        /// The tensor.
        place: String,
        /// Its element type.
        dtype: &'static str,
        /// Its shape, with symbols.
        shape: String,
        /// The symbols' values.
        sizes: String,
        /// Whether it depends on sizes that were chosen.
        is_chosen: bool,
        /// What the file was made with.
        origin: Origin,
    },
    /// A tensor whose elements lie further apart than any machine's memory is large.
    #[error("{place}: {field} spread {dtype} {shape} over more than {BYTES_LIMIT} bytes{sizes}")]
    SpreadTooLarge {
        /// The tensor.
        place: String,
        /// Its strides or offset, with symbols.
        field: String,
        /// Its element type.
        dtype: &'static str,
        /// Its shape, with symbols.
        shape: String,
        /// The symbols' values.
        sizes: String,
        /// Whether it depends on sizes that were chosen.
        is_chosen: bool,
        /// What the file was made with.
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

/// What to do about a number that no choice of sizes changes.
fn damaged(origin: Origin) -> String {
    format!("no size that can be chosen mends this: the file may be damaged or edited; {}", origin.made_again())
}
