//! Sizes from the command line's flags, or from the example.

use super::axis::{Axis, OpenSize};
use super::choice::Choice;
use super::error::SizeError;
use super::sizes::Sizes;
use crate::expression::Linear;
use crate::model::Model;

/// The flags that choose sizes.
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
    /// The example's sizes; an error where one of them depends on data.
    pub fn example(model: &Model) -> Result<Sizes, SizeError> {
        Choice::new(model).sizes()
    }

    /// The example's sizes, except for these symbols.
    pub fn with(model: &Model, symbols: &[(&str, i64)]) -> Result<Sizes, SizeError> {
        let mut choice = Choice::new(model);
        for (name, value) in symbols {
            choice.symbol(&format!("{name}={value}"), name, *value)?;
        }
        choice.sizes()
    }

    /// The sizes that the flags ask for; the example's where they are silent.
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

    /// The sizes that `--batch` sets: those in dimension 0 of inputs and targets that can be chosen.
    pub fn batch(model: &Model) -> Vec<Linear> {
        distinct(Axis::Batch.open_sizes(model))
    }

    /// The same sizes with another value for `changed`; `None` where the model does not allow it.
    pub fn replacing(&self, model: &Model, changed: &[Linear], value: i64) -> Option<Sizes> {
        let mut choice = Choice::new(model);
        for &linear in changed {
            choice.set("", OpenSize { dimension: None, linear }, value).ok()?;
        }
        for (symbol, &size) in self.as_slice().iter().enumerate() {
            if !choice.is_chosen(symbol) {
                choice.set("", OpenSize::symbol(symbol), size).ok()?;
            }
        }
        choice.sizes().ok()
    }
}

/// Each size once, symbols first.
fn distinct(open: Vec<OpenSize<'_>>) -> Vec<Linear> {
    let mut found: Vec<Linear> = Vec::with_capacity(open.len());
    for OpenSize { linear, .. } in open {
        if !found.contains(&linear) {
            found.push(linear);
        }
    }
    found.sort_by_key(|linear| (!linear.is_symbol(), linear.symbol()));
    found
}
