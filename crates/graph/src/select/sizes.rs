//! A value for each of a model's symbols, from flags or from the example.

use super::axis::{Axis, Standing};
use super::choice::Choice;
use super::error::SizeError;
use crate::expression::Linear;
use crate::model::Model;

/// Sizes must be below this.
pub const SIZE_LIMIT: i64 = 1 << 40;

/// A value for each of a model's symbols, in the model's order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    values: Vec<i64>,
}

/// What the command line says about sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeFlags {
    /// `--batch N`.
    pub batch: Option<i64>,
    /// `--seq N`.
    pub sequence: Option<i64>,
    /// Each `--size`: `SYMBOL=N` or `INPUT=AxBxC`.
    pub sizes: Vec<String>,
}

impl Sizes {
    pub(super) fn of(values: Vec<i64>) -> Sizes {
        Sizes { values }
    }

    /// The example's sizes; an error where the file does not tell all of them.
    pub fn example(model: &Model) -> Result<Sizes, SizeError> {
        Choice::new(model).sizes()
    }

    /// The example's sizes, but for these symbols.
    pub fn with(model: &Model, symbols: &[(&str, i64)]) -> Result<Sizes, SizeError> {
        let mut choice = Choice::new(model);
        for (name, value) in symbols {
            choice.symbol(&format!("{name}={value}"), name, *value)?;
        }
        choice.sizes()
    }

    /// The sizes that the flags ask for; the example's where they say nothing.
    pub fn select(model: &Model, flags: &SizeFlags) -> Result<Sizes, SizeError> {
        let mut choice = Choice::new(model);
        if let Some(batch) = flags.batch {
            choice.axis(&format!("--batch {batch}"), Axis::Batch, batch)?;
        }
        if let Some(sequence) = flags.sequence {
            choice.axis(&format!("--seq {sequence}"), Axis::Sequence, sequence)?;
        }
        for text in &flags.sizes {
            choice.text(text)?;
        }
        let sizes = choice.sizes()?;
        choice.check_shapes(&sizes)?;
        Ok(sizes)
    }

    /// What `--batch` makes a number of samples: the sizes in the first dimension of inputs and targets that can be chosen.
    pub fn batch(model: &Model) -> Vec<Linear> {
        distinct(Axis::Batch.standing(model))
    }

    /// The same sizes, but these have another value; `None` where the model was not made for it.
    pub fn replacing(&self, model: &Model, places: &[Linear], value: i64) -> Option<Sizes> {
        let mut choice = Choice::new(model);
        for &linear in places {
            choice.set("", Standing { place: None, linear }, value).ok()?;
        }
        for (symbol, &size) in self.values.iter().enumerate() {
            if !choice.is_chosen(symbol) {
                choice.set("", Standing::symbol(symbol), size).ok()?;
            }
        }
        choice.sizes().ok()
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

/// Each size once, symbols first.
fn distinct(standing: Vec<Standing<'_>>) -> Vec<Linear> {
    let mut found: Vec<Linear> = Vec::with_capacity(standing.len());
    for Standing { linear, .. } in standing {
        if !found.contains(&linear) {
            found.push(linear);
        }
    }
    found.sort_by_key(|linear| (!linear.is_symbol(), linear.symbol()));
    found
}
