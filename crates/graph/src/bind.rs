//! Binding: a model with numbers in place of its symbols.

use crate::dtype::Dtype;
use crate::model::TensorId;

/// A tensor with numbers for sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTensor {
    /// The elements' type.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<i64>,
    /// The strides.
    pub strides: Vec<i64>,
    /// Its storage.
    pub storage: u32,
    /// Where it begins in the storage, in elements.
    pub offset: i64,
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
