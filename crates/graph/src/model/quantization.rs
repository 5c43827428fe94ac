//! Weights that a library quantises when they are moved to the GPU.

use super::tensor::TensorId;
use crate::dtype::Dtype;

/// How a weight is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Four bits of bitsandbytes, with a scale for each block.
    FourBit {
        /// How many elements share a scale.
        block: i64,
        /// Whether the scales are quantised too ("double quantisation").
        is_nested: bool,
    },
    /// Eight bits of bitsandbytes, with a scale for each row.
    EightBit,
}

/// A weight that is quantised: the parameter is its packed form, `states` are the tensors beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantization {
    /// How.
    pub scheme: Scheme,
    /// The shape of the weight.
    pub shape: Vec<i64>,
    /// Its type as built, before it was quantised.
    pub dtype: Dtype,
    /// The buffers that hold scales and tables, in the order in which quantising makes them.
    pub states: Vec<TensorId>,
    /// Whether it is packed already when the model is moved.
    pub is_moved_packed: bool,
}
