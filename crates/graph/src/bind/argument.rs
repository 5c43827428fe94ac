//! The values of expressions, and of arguments that hold some.

use super::{BindError, BoundCall, Value, naming};
use crate::expression::EvaluateError;
use crate::model::{Argument, Call, Model, Origin, Size, Variant};
use crate::select::Sizes;

/// A model's expressions with their values at given sizes.
pub(super) struct Binder<'model, 'sizes> {
    model: &'model Model,
    variant: &'model Variant,
    sizes: &'sizes [i64],
    /// One for each of the model's expressions; a value that is missing matters only where it is used.
    values: Vec<Result<i64, EvaluateError>>,
}

impl<'model, 'sizes> Binder<'model, 'sizes> {
    pub(super) fn new(model: &'model Model, variant: &'model Variant, sizes: &'sizes Sizes) -> Self {
        let sizes = sizes.as_slice();
        Binder { model, variant, sizes, values: model.expressions.iter().map(|it| it.evaluate(sizes)).collect() }
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
                sizes: self.sizes_text([size]),
                is_captured: self.at_example(size).is_some(),
                origin: self.model.origin,
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
            sizes: self.sizes_text([size]),
            is_captured: self.at_example(size).is_some_and(|value| value >= 0),
            origin: self.model.origin,
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

    /// A size's value in the example; `None` where it has none.
    fn at_example(&self, size: Size) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => self.model.expressions[id.0 as usize].evaluate(&self.model.examples()?).ok(),
        }
    }

    /// The symbols that these sizes depend on, with their values, for people; empty where there is none.
    pub(super) fn sizes_text(&self, sizes: impl IntoIterator<Item = Size>) -> String {
        let mut is_used = vec![false; self.sizes.len()];
        for size in sizes {
            if let Size::Symbolic(id) = size {
                self.model.expressions[id.0 as usize].symbols().for_each(|symbol| is_used[symbol as usize] = true);
            }
        }
        let pairs = self.model.symbols.iter().zip(self.sizes).zip(is_used).filter(|(_, is_used)| *is_used);
        let texts: Vec<String> = pairs.map(|((symbol, value), _)| format!("{} = {value}", symbol.name)).collect();
        if texts.is_empty() { String::new() } else { format!(" with {}", texts.join(", ")) }
    }

    /// A tensor by what it is to the model, for people.
    pub(super) fn tensor_name(&self, number: usize) -> String {
        naming::tensor(self.model, self.variant, number)
    }

    /// Whether the sizes are those of the example, at which a model must run.
    pub(super) fn is_example(&self) -> bool {
        self.model.examples().is_some_and(|examples| examples == self.sizes)
    }

    /// What the model was made with.
    pub(super) fn origin(&self) -> Origin {
        self.model.origin
    }

    /// A size with its symbols, for people.
    pub(super) fn size_text(&self, size: Size) -> String {
        self.model.size_text(size)
    }

    /// A shape with its symbols, for people.
    pub(super) fn shape_text(&self, shape: &[Size]) -> String {
        let sizes: Vec<String> = shape.iter().map(|size| self.size_text(*size)).collect();
        format!("[{}]", sizes.join(", "))
    }
}
