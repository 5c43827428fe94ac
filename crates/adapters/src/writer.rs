//! Writes the calls that are added to a pass.

use std::collections::BTreeMap;

use vramfit_eager::operators;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::expression::Expression;
use vramfit_graph::model::{Argument, Call, Cast, ExpressionId, Model, Size, Step, Tensor, TensorId, Type};

/// A pass that is being written.
pub(crate) struct Writer<'m> {
    /// The changed model: operators and expressions are added to it.
    pub model: &'m mut Model,
    /// The types of the pass.
    pub types: Vec<Type>,
    /// Its tensors.
    pub rows: Vec<Tensor>,
    /// Its steps so far.
    pub steps: Vec<Step>,
    /// Whether gradients are on.
    pub has_grad: bool,
    /// The line that added calls belong to.
    pub source: Option<u32>,
    next_storage: u32,
}

impl<'m> Writer<'m> {
    /// A pass with these tensors and no steps yet.
    pub fn new(model: &'m mut Model, types: Vec<Type>, rows: Vec<Tensor>, has_grad: bool) -> Writer<'m> {
        let next_storage = rows.iter().map(|row| row.storage + 1).max().unwrap_or(0).max(rows.len() as u32);
        Writer { model, types, rows, steps: Vec::new(), has_grad, source: None, next_storage }
    }

    /// The type of a tensor.
    pub fn type_of(&self, tensor: TensorId) -> &Type {
        &self.types[self.rows[tensor.0 as usize].r#type as usize]
    }

    /// The type of a tensor's elements.
    pub fn dtype(&self, tensor: TensorId) -> Dtype {
        self.type_of(tensor).dtype
    }

    /// The shape of a tensor.
    pub fn shape(&self, tensor: TensorId) -> Vec<Size> {
        self.type_of(tensor).shape.clone()
    }

    /// Whether a tensor requires grad.
    pub fn requires_grad(&self, tensor: TensorId) -> bool {
        self.rows[tensor.0 as usize].requires_grad
    }

    /// The index of a contiguous type.
    pub fn type_index(&mut self, dtype: Dtype, shape: Vec<Size>) -> u32 {
        let made = Type { dtype, shape, strides: None };
        let known = self.types.iter().position(|found| *found == made);
        known.unwrap_or_else(|| {
            self.types.push(made);
            self.types.len() - 1
        }) as u32
    }

    /// A new tensor with memory of its own.
    pub fn make(&mut self, dtype: Dtype, shape: Vec<Size>) -> TensorId {
        let storage = self.next_storage;
        self.next_storage += 1;
        self.add(dtype, shape, storage, false)
    }

    /// Another shape of a tensor's memory.
    pub fn view(&mut self, of: TensorId, shape: Vec<Size>) -> TensorId {
        let (dtype, storage) = (self.dtype(of), self.rows[of.0 as usize].storage);
        self.add(dtype, shape, storage, true)
    }

    fn add(&mut self, dtype: Dtype, shape: Vec<Size>, storage: u32, is_view: bool) -> TensorId {
        let r#type = self.type_index(dtype, shape);
        let offset = Size::Known(0);
        let (requires_grad, is_leaf, is_on_host) = (false, true, false);
        self.rows.push(Tensor { r#type, storage, offset, requires_grad, is_leaf, is_on_host, is_view });
        TensorId(self.rows.len() as u32 - 1)
    }

    /// Adds a call; its results require grad where an argument does.
    pub fn call(&mut self, name: &str, arguments: Vec<(&str, Argument)>, results: &[TensorId]) {
        self.cast_call(name, arguments, results, Cast::No);
    }

    /// Adds a call that autocast may have made.
    pub fn cast_call(&mut self, name: &str, arguments: Vec<(&str, Argument)>, results: &[TensorId], cast: Cast) {
        let call = self.made_call(name, arguments, results, cast);
        self.note_gradients(&call);
        self.steps.push(Step::Call(call));
    }

    /// A call that is not added to the steps.
    pub fn made_call(
        &mut self,
        name: &str,
        arguments: Vec<(&str, Argument)>,
        results: &[TensorId],
        cast: Cast,
    ) -> Call {
        let known = self.model.operators.iter().position(|operator| operator.name == name);
        let operator = known.unwrap_or_else(|| {
            let names = arguments.iter().map(|(name, _)| (*name).to_owned()).collect();
            self.model.operators.push(operators::named(name.to_owned(), names));
            self.model.operators.len() - 1
        }) as u32;
        let arguments = arguments.into_iter().map(|(_, argument)| argument).collect();
        let results = results.iter().copied().map(Some).collect();
        Call { operator, arguments, results, source: self.source, cast }
    }

    /// Gives the results of a call what they have of gradients.
    fn note_gradients(&mut self, call: &Call) {
        let mut requires_grad = false;
        call.each_tensor(&mut |id| requires_grad |= self.rows[id.0 as usize].requires_grad);
        for TensorId(result) in call.results.iter().flatten() {
            let is_floating = self.types[self.rows[*result as usize].r#type as usize].dtype.is_differentiable();
            let row = &mut self.rows[*result as usize];
            row.requires_grad = self.has_grad && requires_grad && is_floating;
            row.is_leaf = !row.requires_grad;
        }
    }

    /// Adds a free.
    pub fn free(&mut self, tensors: &[TensorId]) {
        self.steps.push(Step::Free(tensors.to_vec()));
    }

    /// A new tensor: a cast.
    pub fn cast(&mut self, tensor: TensorId, dtype: Dtype, cast: Cast) -> TensorId {
        let made = self.make(dtype, self.shape(tensor));
        let arguments = cast_arguments(tensor, dtype, false);
        self.cast_call("aten.to.dtype", arguments, &[made], cast);
        made
    }

    /// The cast of an adapter's weight, which autocast makes once in a pass.
    pub fn cast_of(&mut self, weight: TensorId, dtype: Dtype, known: &mut BTreeMap<TensorId, TensorId>) -> TensorId {
        if let Some(cast) = known.get(&weight) {
            return *cast;
        }
        let cast = self.cast(weight, dtype, Cast::Kept);
        known.insert(weight, cast);
        cast
    }

    /// The product of sizes, as one.
    pub fn product(&mut self, sizes: &[Size]) -> Size {
        let known: i64 = sizes.iter().map(|size| if let Size::Known(value) = size { *value } else { 1 }).product();
        let symbolic: Vec<_> = sizes
            .iter()
            .filter_map(|size| match size {
                Size::Symbolic(id) => Some(&self.model.expressions[id.0 as usize]),
                Size::Known(_) => None,
            })
            .collect();
        let made = match symbolic.as_slice() {
            [] => return Size::Known(known),
            factors => Expression::product(factors, known),
        };
        let Some(made) = made else { return Size::Known(known) };
        let known = self.model.expressions.iter().position(|found| *found == made);
        let index = known.unwrap_or_else(|| {
            self.model.expressions.push(made);
            self.model.expressions.len() - 1
        });
        Size::Symbolic(ExpressionId(index as u32))
    }
}

/// The arguments of `to(tensor, dtype, copy=…)`.
pub(crate) fn cast_arguments(tensor: TensorId, dtype: Dtype, copies: bool) -> Vec<(&'static str, Argument)> {
    vec![
        ("self", Argument::Tensor(tensor)),
        ("dtype", Argument::Dtype(dtype)),
        ("non_blocking", Argument::Bool(false)),
        ("copy", Argument::Bool(copies)),
        ("memory_format", Argument::None),
    ]
}

/// A list of sizes as an argument.
pub(crate) fn sizes(shape: &[Size]) -> Argument {
    Argument::List(shape.iter().map(|size| Argument::Int(*size)).collect())
}

/// A whole number as an argument.
pub(crate) fn int(value: i64) -> Argument {
    Argument::Int(Size::Known(value))
}
