//! What happens during a step: calls of operators, frees, regions.
//!
//! The types are generic over how sizes and lists are held, so that one definition serves a model with symbolic sizes and
//! a bound one ([`crate::bind`]), which borrows its lists from the model.

use super::symbol::Size;
use super::tensor::TensorId;
use crate::dtype::Dtype;

/// An argument of a call; `Int` is the type of its whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument<Int = Size> {
    /// Python's `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(Int),
    /// A floating-point number.
    Float(f64),
    /// A tensor.
    Tensor(TensorId),
    /// A list, which may hold lists.
    List(Vec<Argument<Int>>),
    /// A string.
    Text(String),
    /// An element type.
    Dtype(Dtype),
    /// The device of a result.
    Device {
        /// Whether it is the host.
        is_host: bool,
    },
    /// A memory format.
    MemoryFormat(MemoryFormat),
    /// Anything else; it does not affect memory.
    Other,
}

impl<Int> Argument<Int> {
    /// Visits every tensor in it, in order, those of nested lists included.
    pub fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        match self {
            Argument::Tensor(tensor) => visit(*tensor),
            Argument::List(items) => items.iter().for_each(|item| item.each_tensor(visit)),
            _ => {}
        }
    }

    /// The same, to replace them.
    pub fn each_tensor_mut(&mut self, visit: &mut impl FnMut(&mut TensorId)) {
        match self {
            Argument::Tensor(tensor) => visit(tensor),
            Argument::List(items) => items.iter_mut().for_each(|item| item.each_tensor_mut(visit)),
            _ => {}
        }
    }
}

/// The memory format that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFormat {
    /// Row-major.
    Contiguous,
    /// As the source.
    Preserve,
    /// Channels last, four dimensions.
    ChannelsLast,
    /// Channels last, five dimensions.
    ChannelsLast3d,
}

/// Whether autocast made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// No.
    No,
    /// A cast for one call.
    ForCall,
    /// A cast of a weight, cached until the outermost region ends.
    Kept,
}

/// A call of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<Int = Size, Results = Vec<Option<TensorId>>> {
    /// Index into [`Model::operators`](super::Model::operators).
    pub operator: u32,
    /// Its arguments, in the operator's order.
    pub arguments: Vec<Argument<Int>>,
    /// Its results; `None` for an undefined one.
    pub results: Results,
    /// The line of the model's code that made it, an index into [`Model::sources`](super::Model::sources).
    pub source: Option<u32>,
    /// Whether autocast made it.
    pub cast: Cast,
}

impl<Int, Results> Call<Int, Results> {
    /// Visits every tensor among its arguments, in order.
    pub fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        self.arguments.iter().for_each(|argument| argument.each_tensor(visit));
    }
}

/// One event of a step. `Tensors` is how a list of tensors is held, `Name` how a text is.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<Called = Call, Tensors = Vec<TensorId>, Name = String> {
    /// An operator is called.
    Call(Called),
    /// Python drops these tensors, in this order.
    Free(Tensors),
    /// A module call begins, with these tensor arguments.
    Enter(u32, Tensors),
    /// A module call ends, with these results.
    Exit(u32, Tensors),
    /// The grad mode changes.
    Grad(bool),
    /// An autocast region begins.
    Autocast {
        /// Whether it is for the GPU; others have no effect there.
        is_gpu: bool,
        /// The type it casts to.
        dtype: Option<Dtype>,
        /// Whether it is on.
        is_enabled: bool,
        /// Whether casts of weights are cached.
        has_cache: bool,
    },
    /// An autocast region ends.
    EndAutocast,
    /// A checkpointed region in the model's own code begins.
    Checkpoint {
        /// Whether it is the reentrant kind.
        is_reentrant: bool,
        /// Whether it saves the state of the random number generators.
        preserves_rng: bool,
        /// Its arguments.
        arguments: Tensors,
    },
    /// A checkpointed region ends, with these results.
    EndCheckpoint(Tensors),
    /// A custom `autograd.Function` begins.
    Function {
        /// Its class.
        name: Name,
        /// Its arguments.
        arguments: Tensors,
    },
    /// A custom `autograd.Function` ends.
    EndFunction {
        /// Its results.
        results: Tensors,
        /// What it passed to `save_for_backward`.
        saved: Tensors,
    },
    /// The loss function begins.
    Loss,
    /// The loss function ends.
    EndLoss,
}

impl Step {
    /// Visits every tensor that it names.
    pub fn each_tensor(&self, visit: &mut impl FnMut(TensorId)) {
        match self {
            Step::Call(call) => {
                call.each_tensor(visit);
                call.results.iter().flatten().copied().for_each(visit);
            }
            Step::Free(tensors)
            | Step::Enter(_, tensors)
            | Step::Exit(_, tensors)
            | Step::Checkpoint { arguments: tensors, .. }
            | Step::EndCheckpoint(tensors)
            | Step::Function { arguments: tensors, .. } => tensors.iter().copied().for_each(visit),
            Step::EndFunction { results, saved } => results.iter().chain(saved).copied().for_each(visit),
            Step::Grad(_) | Step::Autocast { .. } | Step::EndAutocast | Step::Loss | Step::EndLoss => {}
        }
    }

    /// The same, to replace them.
    pub fn each_tensor_mut(&mut self, visit: &mut impl FnMut(&mut TensorId)) {
        match self {
            Step::Call(call) => {
                call.arguments.iter_mut().for_each(|argument| argument.each_tensor_mut(visit));
                call.results.iter_mut().flatten().for_each(visit);
            }
            Step::Free(tensors)
            | Step::Enter(_, tensors)
            | Step::Exit(_, tensors)
            | Step::Checkpoint { arguments: tensors, .. }
            | Step::EndCheckpoint(tensors)
            | Step::Function { arguments: tensors, .. } => tensors.iter_mut().for_each(visit),
            Step::EndFunction { results, saved } => results.iter_mut().chain(saved).for_each(visit),
            Step::Grad(_) | Step::Autocast { .. } | Step::EndAutocast | Step::Loss | Step::EndLoss => {}
        }
    }
}
