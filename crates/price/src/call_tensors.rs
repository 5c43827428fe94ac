//! The tensors of one call, and what their layout says about kernels.

use vramfit_graph::bind::{Bound, BoundCall, BoundTensor, Value};
use vramfit_graph::dtype::Dtype;

/// A call with access to its tensors.
pub(crate) struct CallTensors<'a> {
    pub bound: &'a Bound<'a>,
    pub call: &'a BoundCall<'a>,
    /// The first defined result.
    pub result: Option<&'a BoundTensor>,
}

impl<'a> CallTensors<'a> {
    /// The tensor argument at `index`; of a list, its first.
    pub fn tensor(&self, index: usize) -> Option<&'a BoundTensor> {
        match self.call.arguments.get(index)? {
            Value::Tensor(id) => Some(self.bound.tensor(*id)),
            Value::List(items) => match items.first()? {
                Value::Tensor(id) => Some(self.bound.tensor(*id)),
                _ => None,
            },
            _ => None,
        }
    }

    pub fn requires_grad(&self, index: usize) -> bool {
        self.tensor(index).is_some_and(|tensor| tensor.requires_grad)
    }
}

pub(crate) fn is_half(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Float16 | Dtype::Bfloat16)
}

pub(crate) fn is_channels_last(tensor: &BoundTensor) -> bool {
    tensor.shape.len() >= 4 && tensor.shape[1] > 1 && tensor.strides[1] == 1
}
