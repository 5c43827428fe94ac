//! A value for each of a model's symbols.

use crate::expression::Linear;
use crate::model::Model;

/// A value for each of a model's symbols, in the model's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    values: Vec<i64>,
}

impl Sizes {
    pub(super) fn of(values: Vec<i64>) -> Sizes {
        Sizes { values }
    }

    /// The values, in the order of the model's symbols.
    pub fn as_slice(&self) -> &[i64] {
        &self.values
    }

    /// The value of the symbol with this name.
    pub fn get(&self, model: &Model, name: &str) -> Option<i64> {
        let at = model.symbols.iter().position(|symbol| symbol.name == name)?;
        self.values.get(at).copied()
    }

    /// The value of what depends on one symbol.
    pub fn value(&self, linear: Linear) -> Option<i64> {
        linear.at(*self.values.get(linear.symbol() as usize)?)
    }
}
