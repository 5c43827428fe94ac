//! Tensors and their types.

use super::symbol::Size;
use crate::dtype::Dtype;

/// The number of a tensor within a variant. Parameters, buffers, inputs and targets have the same number in every variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Element type, shape and strides, shared by many tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type of its elements.
    pub dtype: Dtype,
    /// The shape.
    pub shape: Vec<Size>,
    /// The strides; `None` is contiguous.
    pub strides: Option<Vec<Size>>,
}

/// A tensor of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its type, an index into the variant's types.
    pub r#type: u32,
    /// Its storage: tensors with the same number share memory.
    pub storage: u32,
    /// Where it begins in the storage, in elements.
    pub offset: Size,
    /// Whether it required grad when it was made.
    pub requires_grad: bool,
    /// Whether it is a leaf.
    pub is_leaf: bool,
    /// Whether it is in host memory.
    pub is_on_host: bool,
    /// Whether it was made as a view.
    pub is_view: bool,
}
