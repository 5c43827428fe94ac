//! Binding: a model with numbers in place of its symbols.
//!
//! [`bind`] evaluates each distinct expression once, then each distinct type, and copies: what does not depend on the
//! sizes is borrowed from the model.

mod argument;
mod error;
mod naming;
mod reach;
mod tensor;

use crate::dims::Dims;
use crate::dtype::Dtype;
use crate::model::{Cast, Model, Step, TensorId, Variant};
use crate::select::{SIZE_LIMIT, Sizes};
use argument::Binder;

pub use error::BindError;
pub use reach::{OutOfReach, check_reach};
pub use tensor::{BYTES_LIMIT, contiguous_strides};

/// A tensor with numbers for sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTensor {
    /// The elements' type.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Dims,
    /// The strides.
    pub strides: Dims,
    /// Its storage.
    pub storage: u32,
    /// Where it begins in the storage, in elements.
    pub offset: i64,
    /// How many elements it has.
    pub elements: i64,
    /// How many bytes its elements take, each counted once for every place it stands in: `elements` times the size of one.
    pub bytes: u64,
    /// How many bytes the storage must have for it: up to the end of its last element, `offset` included.
    pub extent: u64,
    /// Whether it required grad when it was made.
    pub requires_grad: bool,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// Whether it lives on the host.
    pub is_on_host: bool,
    /// Whether it was made as a view.
    pub is_view: bool,
}

/// An argument with numbers for sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A tensor.
    Tensor(TensorId),
    /// A list.
    List(Vec<Value>),
    /// A text.
    Text(String),
    /// An element type.
    Dtype(Dtype),
    /// Where a result is to live.
    Device {
        /// Whether it is the host.
        is_host: bool,
    },
    /// A memory format.
    MemoryFormat(crate::model::MemoryFormat),
    /// Anything else.
    Other,
}

impl Value {
    /// Calls `visit` with every tensor in the value, those in lists included.
    pub fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        match self {
            Value::Tensor(id) => visit(*id),
            Value::List(items) => items.iter().for_each(|item| item.each_tensor(visit)),
            _ => {}
        }
    }
}

/// A call of an operator, with numbers for sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundCall<'model> {
    /// The operator, a row of the model's table.
    pub operator: u32,
    /// Its arguments, in the operator's order.
    pub arguments: Vec<Value>,
    /// Its results; `None` for an undefined one.
    pub results: &'model [Option<TensorId>],
    /// The line of the model that made it.
    pub source: Option<u32>,
    /// Whether autocast made it.
    pub cast: Cast,
}

/// Something that happened during the step, with numbers for sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundStep<'model> {
    /// An operator was called.
    Call(BoundCall<'model>),
    /// Python let go of these tensors, in this order.
    Free(&'model [TensorId]),
    /// A module call begins, with these tensor arguments.
    Enter(u32, &'model [TensorId]),
    /// A module call ends, with these results.
    Exit(u32, &'model [TensorId]),
    /// The grad mode changes.
    Grad(bool),
    /// An autocast region begins.
    Autocast {
        /// Whether it is one for the GPU; others change nothing there.
        is_gpu: bool,
        /// The type it casts to.
        dtype: Option<Dtype>,
        /// Whether it is on.
        is_enabled: bool,
        /// Whether weights' casts are kept.
        has_cache: bool,
    },
    /// An autocast region ends.
    EndAutocast,
    /// A checkpointed region of the model's own begins.
    Checkpoint {
        /// Whether it is the reentrant kind.
        is_reentrant: bool,
        /// Whether it keeps the state of the random number generators.
        preserves_rng: bool,
        /// Its arguments.
        arguments: &'model [TensorId],
    },
    /// A checkpointed region ends, with these results.
    EndCheckpoint(&'model [TensorId]),
    /// A custom `autograd.Function` begins.
    Function {
        /// Its class.
        name: &'model str,
        /// Its arguments.
        arguments: &'model [TensorId],
    },
    /// A custom `autograd.Function` ends.
    EndFunction {
        /// Its results.
        results: &'model [TensorId],
        /// What it gave to `save_for_backward`.
        saved: &'model [TensorId],
    },
    /// The loss function begins.
    Loss,
    /// The loss function ends.
    EndLoss,
}

/// One variant of a model with numbers in place of its symbols.
#[derive(Clone, Debug)]
pub struct Bound<'model> {
    /// The model.
    pub model: &'model Model,
    /// The variant, a number below the length of [`Model::variants`].
    pub variant_index: usize,
    /// The variant.
    pub variant: &'model Variant,
    /// The value of each of the model's symbols.
    pub sizes: Sizes,
    /// The tensors; [`TensorId`] is the place in here.
    pub tensors: Vec<BoundTensor>,
    /// What happened, in order.
    pub steps: Vec<BoundStep<'model>>,
}

impl Bound<'_> {
    /// The tensor with this number, which must be one of the variant's.
    pub fn tensor(&self, tensor: TensorId) -> &BoundTensor {
        &self.tensors[tensor.0 as usize]
    }

    /// The name of a call's operator.
    pub fn operator_name(&self, call: &BoundCall<'_>) -> &str {
        &self.model.operators[call.operator as usize].name
    }
}

/// Puts numbers in place of the symbols of one variant.
///
/// The model must be one that a reader has accepted: every number in it that names something names something there.
pub fn bind<'model>(model: &'model Model, variant: usize, sizes: &Sizes) -> Result<Bound<'model>, BindError> {
    let index = variant;
    let count = model.variants.len();
    let variant = model.variants.get(index).ok_or(BindError::UnknownVariant { found: index, count })?;
    check_sizes(model, sizes)?;
    let binder = Binder::new(model, variant, sizes);
    let tensors = tensor::bind_tensors(&binder, &model.types[variant.types], &model.tensors[variant.tensors])?;
    let section = &model.steps[variant.steps];
    let mut steps = Vec::with_capacity(section.len());
    for (at, step) in section.iter().enumerate() {
        steps.push(bind_step(&binder, step, (variant.steps, at))?);
    }
    Ok(Bound { model, variant_index: index, variant, sizes: sizes.clone(), tensors, steps })
}

fn check_sizes(model: &Model, sizes: &Sizes) -> Result<(), BindError> {
    if sizes.as_slice().len() != model.symbols.len() {
        return Err(BindError::WrongSymbolCount { found: sizes.as_slice().len(), needed: model.symbols.len() });
    }
    for (symbol, value) in model.symbols.iter().zip(sizes.as_slice()) {
        if !(1..SIZE_LIMIT).contains(value) {
            return Err(BindError::SizeOutOfRange { symbol: symbol.name.clone(), found: *value });
        }
    }
    Ok(())
}

fn bind_step<'model>(
    binder: &Binder<'model, '_>,
    step: &'model Step,
    place: (usize, usize),
) -> Result<BoundStep<'model>, BindError> {
    Ok(match step {
        Step::Call(call) => BoundStep::Call(binder.call(call, place)?),
        Step::Free(tensors) => BoundStep::Free(tensors),
        Step::Enter(module, tensors) => BoundStep::Enter(*module, tensors),
        Step::Exit(module, tensors) => BoundStep::Exit(*module, tensors),
        Step::Grad(is_enabled) => BoundStep::Grad(*is_enabled),
        Step::Autocast { is_gpu, dtype, is_enabled, has_cache } => {
            BoundStep::Autocast { is_gpu: *is_gpu, dtype: *dtype, is_enabled: *is_enabled, has_cache: *has_cache }
        }
        Step::EndAutocast => BoundStep::EndAutocast,
        Step::Checkpoint { is_reentrant, preserves_rng, arguments } => {
            BoundStep::Checkpoint { is_reentrant: *is_reentrant, preserves_rng: *preserves_rng, arguments }
        }
        Step::EndCheckpoint(results) => BoundStep::EndCheckpoint(results),
        Step::Function { name, arguments } => BoundStep::Function { name, arguments },
        Step::EndFunction { results, saved } => BoundStep::EndFunction { results, saved },
        Step::Loss => BoundStep::Loss,
        Step::EndLoss => BoundStep::EndLoss,
    })
}
