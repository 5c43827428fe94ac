//! What a call is given, and what it makes.

use super::dimension::Dimension;
use super::tensor::Tensor;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Argument, MemoryFormat};

/// An argument of a call.
#[derive(Clone)]
pub(super) enum Given {
    Tensor(Tensor),
    Tensors(Vec<Tensor>),
    Int(Dimension),
    Ints(Vec<Dimension>),
    Plain(Argument),
}

pub(super) fn ints(values: &[i64]) -> Given {
    Given::Ints(values.iter().copied().map(Dimension::from).collect())
}

pub(super) fn int(value: i64) -> Given {
    Given::Int(value.into())
}

pub(super) fn boolean(value: bool) -> Given {
    Given::Plain(Argument::Bool(value))
}

pub(super) fn float(value: f64) -> Given {
    Given::Plain(Argument::Float(value))
}

pub(super) fn contiguous() -> Given {
    Given::Plain(Argument::MemoryFormat(MemoryFormat::Contiguous))
}

/// The tensor, or Python's `None`.
pub(super) fn maybe(tensor: Option<Tensor>) -> Given {
    tensor.map_or(Given::Plain(Argument::None), Given::Tensor)
}

/// The element type of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// That of the first tensor.
    First,
    /// The widest among the tensors.
    Promoted,
    /// This.
    Exactly(Dtype),
}

/// A result of a call.
pub(super) struct Made {
    pub(super) kind: Kind,
    pub(super) shape: Vec<Dimension>,
    pub(super) strides: Option<Vec<Dimension>>,
}

impl Made {
    pub(super) fn contiguous(shape: Vec<Dimension>) -> Made {
        Made { kind: Kind::First, shape, strides: None }
    }

    pub(super) fn like(tensor: &Tensor) -> Made {
        Made { kind: Kind::First, shape: tensor.shape().to_vec(), strides: tensor.strides() }
    }
}

pub(super) fn tensors_of(given: &[Given]) -> impl Iterator<Item = &Tensor> {
    given.iter().flat_map(|argument| match argument {
        Given::Tensor(tensor) => std::slice::from_ref(tensor),
        Given::Tensors(tensors) => tensors.as_slice(),
        _ => &[],
    })
}
