//! Sizes at which a model runs out of a table: positions beyond its position embeddings, a mask cut from one that is too
//! small.
//!
//! A recording at one size does not show such limits, and its expressions go on beyond them; the training would stop
//! with an index error or with shapes that do not match. This module follows the greatest number in tensors of positions, as
//! far as it is certain: those that `arange` makes, and those that are counted along a mask without padding.

use thiserror::Error;
use vramfit_graph::bind::{Bound, BoundCall, BoundStep, Value};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::TensorId;

use crate::operators::{Greatest, Reads, facts};

/// A step reaches beyond the end of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{place}: `{operator}` needs {needed} {unit} of {table}, which has {present}: PyTorch would stop with an error"
)]
pub struct OutOfReach {
    place: String,
    operator: String,
    table: String,
    needed: i64,
    unit: String,
    present: i64,
}

impl OutOfReach {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        "choose a smaller --seq or --size, or capture the model built for longer ones (max_position_embeddings, n_positions)"
    }
}

/// Refuses sizes at which the bound step reaches beyond the end of one of its tensors.
pub fn check_reach(bound: &Bound<'_>) -> Result<(), OutOfReach> {
    let mut reach = Reach { bound, greatest: vec![None; bound.tensors.len()] };
    for input in bound.model.inputs.iter().filter(|input| input.name.contains("mask")) {
        reach.set(input.tensor, Some(1));
    }
    for step in &bound.steps {
        if let BoundStep::Call(call) = step {
            reach.check(call)?;
            let greatest = reach.greatest_of(call);
            for result in call.results.iter().flatten() {
                reach.set(*result, greatest);
            }
        }
    }
    Ok(())
}

struct Reach<'bound, 'model> {
    bound: &'bound Bound<'model>,
    /// The greatest number in each tensor; `None` where it is not certain.
    greatest: Vec<Option<i64>>,
}

impl Reach<'_, '_> {
    fn set(&mut self, tensor: TensorId, greatest: Option<i64>) {
        if let Some(place) = self.greatest.get_mut(tensor.0 as usize) {
            *place = greatest;
        }
    }

    fn get(&self, value: &Value) -> Option<i64> {
        match value {
            Value::Tensor(tensor) => *self.greatest.get(tensor.0 as usize)?,
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    fn shape(&self, value: &Value) -> Option<&[i64]> {
        let Value::Tensor(tensor) = value else { return None };
        Some(self.bound.tensors.get(tensor.0 as usize)?.shape.as_slice())
    }

    /// The greatest number in a call's result.
    fn greatest_of(&self, call: &BoundCall<'_>) -> Option<i64> {
        let arguments = call.arguments.as_slice();
        let first = || self.get(arguments.first()?);
        let second = || self.get(arguments.get(1)?);
        match (facts(self.bound.operator(call)).greatest, arguments) {
            (Greatest::Below(end), _) if arguments[..end.min(arguments.len())].iter().all(is_int) => {
                match arguments.get(end)? {
                    Value::Int(end) => end.checked_sub(1),
                    _ => None,
                }
            }
            (Greatest::LastOfRange, [Value::Int(start), Value::Int(end), Value::Int(step), ..])
                if *step > 0 && end > start =>
            {
                start.checked_add((end.checked_sub(*start)?.checked_sub(1)? / step).checked_mul(*step)?)
            }
            // A token that is no padding, at every position of a full sequence.
            (Greatest::Compared, [Value::Tensor(tensor), Value::Int(_), ..]) => {
                self.bound.model.inputs.iter().any(|input| input.tensor == *tensor).then_some(1)
            }
            (Greatest::Counted, [counted, Value::Int(dim), ..]) if first()? == 1 => {
                let shape = self.shape(counted)?;
                shape.get(dimension(*dim, shape.len())?).copied()
            }
            (Greatest::Sum, [_, _, Value::Int(1), ..] | [_, _]) => first()?.checked_add(second()?),
            (Greatest::Difference, [_, Value::Int(number), Value::Int(1), ..]) => first()?.checked_sub(*number),
            (Greatest::Product, _) => first()?.checked_mul(second()?),
            (Greatest::Same, _) => first(),
            _ => None,
        }
    }

    /// Whether the call reads beyond the end of what it reads.
    fn check(&self, call: &BoundCall<'_>) -> Result<(), OutOfReach> {
        match (facts(self.bound.operator(call)).reads, call.arguments.as_slice()) {
            (Reads::Rows, [table, index, ..]) => self.rows(call, table, 0, index),
            (Reads::Along, [table, Value::Int(dim), index, ..]) => self.rows(call, table, *dim, index),
            (Reads::Indexed, [table, Value::List(indices), ..]) => {
                // A mask among them takes as many dimensions as it has, and the dimensions of the others move.
                let is_mask = |value: &Value| match value {
                    Value::Tensor(tensor) => matches!(self.bound.tensor(*tensor).dtype, Dtype::Bool | Dtype::Uint8),
                    _ => false,
                };
                if indices.iter().any(is_mask) {
                    return Ok(());
                }
                indices.iter().zip(0..).try_for_each(|(index, dim)| self.rows(call, table, dim, index))
            }
            (Reads::Slice, [source, Value::Int(dim), start, end, step, ..]) => {
                self.cut(call, source, *dim, (start, end, step))
            }
            (Reads::Narrow, [source, Value::Int(dim), Value::Int(start), Value::Int(length), ..]) if *start >= 0 => {
                self.enough(call, source, *dim, start.saturating_add(*length), "entries")
            }
            _ => Ok(()),
        }
    }

    /// The greatest of `index` must be a row of `table`.
    fn rows(&self, call: &BoundCall<'_>, table: &Value, dim: i64, index: &Value) -> Result<(), OutOfReach> {
        match index {
            Value::Tensor(_) => match self.get(index) {
                Some(greatest) => self.enough(call, table, dim, greatest.saturating_add(1), "rows"),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Python's slices end where the tensor ends, whatever was asked for; the recorded result is larger than that.
    fn cut(
        &self,
        call: &BoundCall<'_>,
        source: &Value,
        dim: i64,
        (start, end, step): (&Value, &Value, &Value),
    ) -> Result<(), OutOfReach> {
        let number = |value: &Value, default: i64| match value {
            Value::Int(number) => *number,
            _ => default,
        };
        let (start, end, step) = (number(start, 0), number(end, i64::MAX), number(step, 1));
        let (Some(shape), Some(Some(result))) = (self.shape(source), call.results.first()) else { return Ok(()) };
        let Some(dim) = dimension(dim, shape.len()) else { return Ok(()) };
        let size = shape[dim];
        let place = |at: i64| if at < 0 { at.saturating_add(size).max(0) } else { at.min(size) };
        let length = (place(end) - place(start)).max(0);
        let length = if step > 1 { (length + step - 1) / step } else { length };
        let wanted = self.bound.tensor(*result).shape.get(dim).copied().unwrap_or(0);
        if wanted <= length {
            return Ok(());
        }
        let needed = place(start).saturating_add(wanted.saturating_mul(step.max(1)));
        self.enough(call, source, dim as i64, needed, "entries")
    }

    fn enough(&self, call: &BoundCall<'_>, table: &Value, dim: i64, needed: i64, what: &str) -> Result<(), OutOfReach> {
        let Some(shape) = self.shape(table) else { return Ok(()) };
        let Some(dim) = dimension(dim, shape.len()) else { return Ok(()) };
        if needed <= shape[dim] {
            return Ok(());
        }
        let model = self.bound.model;
        let named = match table {
            Value::Tensor(tensor) => {
                let weights = model.parameters.iter().chain(&model.buffers);
                weights.filter(|weight| weight.tensor == *tensor).find_map(|weight| weight.names.first())
            }
            _ => None,
        };
        Err(OutOfReach {
            place: self.bound.place(call),
            operator: self.bound.operator_name(call).to_owned(),
            table: named.map_or_else(|| format!("a tensor of {shape:?}"), |name| format!("`{name}` {shape:?}")),
            needed,
            unit: if dim == 0 { what.to_owned() } else { format!("{what} in dimension {dim}") },
            present: shape[dim],
        })
    }
}

fn is_int(value: &Value) -> bool {
    matches!(value, Value::Int(_))
}

fn dimension(dim: i64, count: usize) -> Option<usize> {
    let count = i64::try_from(count).ok()?;
    let dim = if dim < 0 { dim + count } else { dim };
    (0..count).contains(&dim).then_some(dim as usize)
}
