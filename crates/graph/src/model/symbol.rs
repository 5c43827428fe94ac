//! Sizes that depend on what the user chooses.

/// The number of an expression in [`Model::expressions`](super::Model::expressions), which holds each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpressionId(pub u32);

/// A whole number, or an expression of the model's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// The same whatever is chosen.
    Known(i64),
    /// Depends on symbols.
    Symbolic(ExpressionId),
}

/// A size the user may choose, such as the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Its value in the example inputs.
    pub example: Example,
    /// The values at which it was recorded.
    pub recorded: Vec<i64>,
    /// The inputs and targets that have it as a dimension: name and dimension.
    pub dims: Vec<(String, usize)>,
    /// The values it may have; `None` where the file does not restrict them.
    pub range: Option<SymbolRange>,
}

/// The value of a symbol in the example inputs that a file was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Example {
    /// This value, which is the default.
    Known(i64),
    /// The file has no value because the data decides it: the user must give one.
    DataDependent {
        /// The operator or node that produces it, for messages.
        producer: String,
    },
}

impl Example {
    /// The value, where the file has one.
    pub fn value(&self) -> Option<i64> {
        match self {
            Example::Known(value) => Some(*value),
            Example::DataDependent { .. } => None,
        }
    }
}

/// The values a symbol may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SymbolRange {
    /// The smallest.
    pub least: i64,
    /// The largest, if there is one.
    pub most: Option<i64>,
}

impl SymbolRange {
    /// Whether the symbol may have this value.
    pub fn contains(self, value: i64) -> bool {
        value >= self.least && self.most.is_none_or(|most| value <= most)
    }
}
