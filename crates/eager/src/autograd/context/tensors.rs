//! New tensors, copies of them, and reductions.

use std::rc::Rc;

use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::Context;
use crate::autograd::Tensor;
use crate::kernels::reduce::{self, Reduction};
use crate::memory::Storage;

impl Context {
    /// `expect_contiguous`: a contiguous copy where the tensor is not contiguous, else the tensor itself.
    pub fn contiguous(&mut self, tensor: &Tensor) -> Tensor {
        if tensor.layout().is_contiguous() {
            return tensor.clone();
        }
        self.empty_contiguous(tensor.dtype(), tensor.shape())
    }

    /// `contiguous(memory_format)`: a copy where the tensor is not in the format, else the tensor itself.
    pub fn contiguous_in(&self, tensor: &Tensor, format: Format) -> Tensor {
        if format.is_kept_by(tensor.layout()) {
            return tensor.clone();
        }
        self.empty(format.layout(tensor.dtype(), tensor.shape()))
    }

    /// A new tensor.
    pub fn empty(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor::empty(&self.memory, layout)
    }

    /// A new contiguous tensor.
    pub fn empty_contiguous(&self, dtype: Dtype, shape: &[i64]) -> Tensor {
        self.empty(Layout::contiguous(dtype, shape))
    }

    /// Memory that is not a tensor, such as a kernel's buffer; freed when the handle is dropped.
    pub fn scratch(&self, bytes: u64) -> Rc<Storage> {
        Storage::new(&self.memory, bytes)
    }

    /// Memory of a tensor whose layout and graph do not matter, with a single owner.
    pub fn storage(&self, bytes: u64) -> Storage {
        Storage::unshared(&self.memory, bytes)
    }

    /// A sum over `dims`, with the buffers a split reduction needs.
    pub fn sum(&self, tensor: &Tensor, dims: &[i64], keeps_dims: bool, dtype: Dtype) -> Tensor {
        self.reduce(tensor, dims, keeps_dims, dtype, Reduction::summing(dtype))
    }

    /// A reduction over `dims`; no dims are all dims.
    pub fn reduce(
        &self,
        tensor: &Tensor,
        dims: &[i64],
        keeps_dims: bool,
        dtype: Dtype,
        reduction: Reduction,
    ) -> Tensor {
        let rank = tensor.shape().len();
        let all: Dims = (0..rank as i64).collect();
        let dims = if dims.is_empty() { &*all } else { dims };
        let is_reduced =
            |dim: usize| dims.iter().any(|&reduced| reduced == dim as i64 || reduced + rank as i64 == dim as i64);
        let wrapped: Dims = (0..rank).filter(|&dim| is_reduced(dim)).map(|dim| dim as i64).collect();
        let shape: Dims = (0..rank)
            .filter(|&dim| keeps_dims || !is_reduced(dim))
            .map(|dim| if is_reduced(dim) { 1 } else { tensor.shape()[dim] })
            .collect();
        let result = self.empty_contiguous(dtype, &shape);
        self.reduction_buffers(tensor.layout(), &wrapped, reduction);
        result
    }

    /// A sum over all elements into existing memory.
    pub fn sum_into(&self, tensor: &Tensor, dtype: Dtype) {
        let all: Dims = (0..tensor.shape().len() as i64).collect();
        self.reduction_buffers(tensor.layout(), &all, Reduction::summing(dtype));
    }

    /// The buffers that a reduction of `layout` over `dims` needs while its kernel is launched.
    pub fn reduction_buffers(&self, layout: &Layout, dims: &[i64], reduction: Reduction) {
        if let Some(buffers) = reduce::buffers(layout, dims, reduction, self.machine.gpu) {
            let partials = self.scratch(buffers.partials);
            let semaphores = self.scratch(buffers.semaphores);
            drop(semaphores);
            drop(partials);
        }
    }
}
