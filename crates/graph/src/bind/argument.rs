//! The values of expressions, and of arguments that hold some.

use super::{BindError, BoundCall, Value};
use crate::expression::EvaluateError;
use crate::model::{Argument, Call, Model, Size};
use crate::select::Sizes;

/// A model's expressions with their values at given sizes.
pub(super) struct Binder<'model, 'sizes> {
    model: &'model Model,
    sizes: &'sizes [i64],
    /// One for each of the model's expressions; a value that is missing matters only where it is used.
    values: Vec<Result<i64, EvaluateError>>,
}

impl<'model, 'sizes> Binder<'model, 'sizes> {
    pub(super) fn new(model: &'model Model, sizes: &'sizes Sizes) -> Self {
        let sizes = sizes.as_slice();
        Binder { model, sizes, values: model.expressions.iter().map(|it| it.evaluate(sizes)).collect() }
    }

    /// The value of a size; `place` says where it stands.
    #[inline]
    pub(super) fn size(&self, size: Size, place: impl FnOnce() -> String) -> Result<i64, BindError> {
        match size {
            Size::Known(value) => Ok(value),
            Size::Symbolic(id) => self.values[id.0 as usize].map_err(|source| BindError::NoValue {
                place: place(),
                expression: self.model.size_text(size),
                source,
                sizes: self.sizes_text(),
            }),
        }
    }

    /// The value of a size that must not be negative; `place` says where it stands.
    #[inline]
    pub(super) fn count(&self, size: Size, place: impl Fn() -> String) -> Result<i64, BindError> {
        let found = self.size(size, &place)?;
        if found >= 0 {
            return Ok(found);
        }
        Err(BindError::Negative {
            place: place(),
            expression: self.model.size_text(size),
            found,
            sizes: self.sizes_text(),
        })
    }

    /// A call with numbers for its sizes; `place` is its section and its number therein.
    pub(super) fn call(&self, call: &'model Call, place: (usize, usize)) -> Result<BoundCall<'model>, BindError> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (at, argument) in call.arguments.iter().enumerate() {
            arguments.push(self.argument(argument, &|| self.argument_place(call, place, at))?);
        }
        Ok(BoundCall {
            operator: call.operator,
            arguments,
            results: &call.results,
            source: call.source,
            cast: call.cast,
        })
    }

    fn argument(&self, argument: &Argument, place: &dyn Fn() -> String) -> Result<Value, BindError> {
        Ok(match argument {
            Argument::None => Value::None,
            Argument::Bool(value) => Value::Bool(*value),
            Argument::Int(size) => Value::Int(self.size(*size, place)?),
            Argument::Float(value) => Value::Float(*value),
            Argument::Tensor(tensor) => Value::Tensor(*tensor),
            Argument::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    values.push(self.argument(item, place)?);
                }
                Value::List(values)
            }
            Argument::Text(text) => Value::Text(text.clone()),
            Argument::Dtype(dtype) => Value::Dtype(*dtype),
            Argument::Device { is_host } => Value::Device { is_host: *is_host },
            Argument::MemoryFormat(format) => Value::MemoryFormat(*format),
            Argument::Other => Value::Other,
        })
    }

    fn argument_place(&self, call: &Call, (section, step): (usize, usize), argument: usize) -> String {
        let operator = &self.model.operators[call.operator as usize];
        format!("steps[{section}][{step}]: operator `{}`: argument `{}`", operator.name, operator.arguments[argument])
    }

    /// The symbols with their values, for people.
    pub(super) fn sizes_text(&self) -> String {
        let pairs = self.model.symbols.iter().zip(self.sizes);
        pairs.map(|(symbol, value)| format!("{} = {value}", symbol.name)).collect::<Vec<_>>().join(", ")
    }

    /// A shape with its symbols, for people.
    pub(super) fn shape_text(&self, shape: &[Size]) -> String {
        let sizes: Vec<String> = shape.iter().map(|size| self.model.size_text(*size)).collect();
        format!("[{}]", sizes.join(", "))
    }
}
