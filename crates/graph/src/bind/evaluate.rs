//! The values of expressions at the chosen sizes, and of the arguments that hold them.

use super::bound::{BoundCall, Value};
use super::error::BindError;
use super::naming;
use crate::expression::EvaluateError;
use crate::model::{Argument, Call, Model, Origin, Size, Variant};
use crate::select::Sizes;

/// The values of a model's expressions at the chosen sizes.
pub(super) struct Binder<'model, 'sizes> {
    model: &'model Model,
    variant: &'model Variant,
    sizes: &'sizes [i64],
    /// One for each of the model's expressions; one that has no value is an error only where it is used.
    values: Vec<Result<i64, EvaluateError>>,
}

impl<'model, 'sizes> Binder<'model, 'sizes> {
    pub(super) fn new(model: &'model Model, variant: &'model Variant, sizes: &'sizes Sizes) -> Self {
        let sizes = sizes.as_slice();
        Binder { model, variant, sizes, values: model.expressions.iter().map(|it| it.evaluate(sizes)).collect() }
    }

    /// The value of a size; `location` says where it is, for errors.
    #[inline]
    pub(super) fn size(&self, size: Size, location: impl FnOnce() -> String) -> Result<i64, BindError> {
        match size {
            Size::Known(value) => Ok(value),
            Size::Symbolic(id) => self.values[id.0 as usize].map_err(|source| BindError::NoValue {
                location: location(),
                expression: self.model.size_text(size),
                source,
                sizes: self.sizes_text([size]),
                is_captured: self.at_example(size).is_some(),
                origin: self.model.origin,
            }),
        }
    }

    /// The value of a size that must not be negative; `location` says where it is, for errors.
    #[inline]
    pub(super) fn count(&self, size: Size, location: impl Fn() -> String) -> Result<i64, BindError> {
        let found = self.size(size, &location)?;
        if found >= 0 {
            return Ok(found);
        }
        Err(BindError::Negative {
            location: location(),
            expression: self.model.size_text(size),
            found,
            sizes: self.sizes_text([size]),
            is_captured: self.at_example(size).is_some_and(|value| value >= 0),
            origin: self.model.origin,
        })
    }

    /// A call with numbers for its sizes; `location` says where it is, for errors.
    pub(super) fn call(
        &self,
        call: &'model Call,
        location: &dyn Fn() -> String,
    ) -> Result<BoundCall<'model>, BindError> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for (index, argument) in call.arguments.iter().enumerate() {
            arguments.push(self.argument(argument, &|| self.argument_location(call, &location(), index))?);
        }
        let Call { operator, ref results, source, cast, .. } = *call;
        Ok(BoundCall { operator, arguments, results, source, cast })
    }

    fn argument(&self, argument: &Argument, location: &dyn Fn() -> String) -> Result<Value, BindError> {
        Ok(match argument {
            Argument::None => Value::None,
            Argument::Bool(value) => Value::Bool(*value),
            Argument::Int(size) => Value::Int(self.size(*size, location)?),
            Argument::Float(value) => Value::Float(*value),
            Argument::Tensor(tensor) => Value::Tensor(*tensor),
            Argument::List(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    values.push(self.argument(item, location)?);
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

    fn argument_location(&self, call: &Call, location: &str, argument: usize) -> String {
        let operator = &self.model.operators[call.operator as usize];
        format!("{location}: operator `{}`: argument `{}`", operator.name, operator.arguments[argument])
    }

    /// A size's value in the example, if it has one.
    fn at_example(&self, size: Size) -> Option<i64> {
        match size {
            Size::Known(value) => Some(value),
            Size::Symbolic(id) => self.model.expressions[id.0 as usize].evaluate(&self.model.examples()?).ok(),
        }
    }

    /// The symbols that these sizes depend on, with their values, as the end of a message; empty where they depend on none.
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

    /// What to call a tensor in a message.
    pub(super) fn tensor_name(&self, number: usize) -> String {
        naming::tensor(self.model, self.variant, number)
    }

    /// Whether the sizes are those of the example, at which a model must run.
    pub(super) fn is_example(&self) -> bool {
        self.model.examples().is_some_and(|examples| examples == self.sizes)
    }

    /// The kind of file the model comes from.
    pub(super) fn origin(&self) -> Origin {
        self.model.origin
    }

    /// A size as text, with its symbols.
    pub(super) fn size_text(&self, size: Size) -> String {
        self.model.size_text(size)
    }

    /// A shape as text, with its symbols.
    pub(super) fn shape_text(&self, shape: &[Size]) -> String {
        let sizes: Vec<String> = shape.iter().map(|size| self.size_text(*size)).collect();
        format!("[{}]", sizes.join(", "))
    }
}
