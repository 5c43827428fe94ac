//! Which dimensions a reduction is over, and what its kernel allocates.

use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use crate::autograd::{Context, Tensor};
use crate::kernels::reduce::Reduction;
use crate::operators::call::{Call, Unmodelled, wrap};

/// Which dimensions are reduced.
#[derive(Clone, Debug)]
pub(super) struct Over {
    /// Counted from the front, in order.
    pub dims: Dims,
    pub keeps_dims: bool,
}

impl Over {
    pub fn all(call: &Call<'_>) -> Result<Over, Unmodelled> {
        let rank = call.tensor(0)?.shape().len();
        Ok(Over { dims: (0..rank as i64).collect(), keeps_dims: false })
    }

    /// The dimensions that are argument 1, and whether argument 2 keeps them.
    pub fn listed(call: &Call<'_>) -> Result<Over, Unmodelled> {
        Over::at(call, 1, 2)
    }

    pub fn at(call: &Call<'_>, dims: usize, keeps: usize) -> Result<Over, Unmodelled> {
        let rank = call.tensor(0)?.shape().len();
        let keeps_dims = call.bool(keeps).unwrap_or(false);
        let given = if call.is_none(dims) { Dims::default() } else { call.ints(dims)? };
        if given.is_empty() {
            return Ok(Over { dims: (0..rank as i64).collect(), keeps_dims });
        }
        let mut is_in = smallvec::SmallVec::<[bool; 6]>::from_elem(false, rank.max(1));
        for &dim in &given {
            is_in[wrap(dim, rank)?] = true;
        }
        Ok(Over { dims: (0..rank).filter(|&dim| is_in[dim]).map(|dim| dim as i64).collect(), keeps_dims })
    }

    pub fn has(&self, dim: usize) -> bool {
        self.dims.contains(&(dim as i64))
    }

    pub fn shape(&self, source: &[i64]) -> Dims {
        (0..source.len())
            .filter(|&dim| self.keeps_dims || !self.has(dim))
            .map(|dim| if self.has(dim) { 1 } else { source[dim] })
            .collect()
    }

    pub fn keeping(&self) -> Over {
        Over { keeps_dims: true, ..self.clone() }
    }

    /// A result seen with the reduced dimensions put back as ones.
    pub fn restored(&self, tensor: &Tensor, source: &[i64]) -> Tensor {
        if tensor.shape().len() == source.len() {
            return tensor.clone();
        }
        let mut left = tensor.shape().iter().zip(&tensor.layout().strides);
        let (mut shape, mut strides) = (Dims::default(), Dims::default());
        for dim in 0..source.len() {
            let next = if self.has(dim) { None } else { left.next() };
            shape.push(next.map_or(1, |(&size, _)| size));
            strides.push(next.map_or(0, |(_, &stride)| stride));
        }
        tensor.view(Layout { dtype: tensor.dtype(), shape, strides })
    }

    /// A gradient spread over the source's shape, without a copy.
    pub fn spread(&self, gradient: &Tensor, source: &[i64]) -> Tensor {
        let seen = self.restored(gradient, source);
        let strides = (0..source.len()).map(|dim| if self.has(dim) { 0 } else { seen.layout().strides[dim] }).collect();
        gradient.view(Layout { dtype: gradient.dtype(), shape: source.into(), strides })
    }
}

/// The result of a reduction with the kernel's buffers; an input of another type is cast first, unless it is in half
/// precision and summed in single.
pub(super) fn reduced(context: &Context, source: &Tensor, over: &Over, dtype: Dtype, reduction: Reduction) -> Tensor {
    let result = context.empty_contiguous(dtype, &over.shape(source.shape()));
    let is_read_as_is = source.dtype() == dtype || (source.dtype().is_half() && dtype == Dtype::Float32);
    let cast = (!is_read_as_is).then(|| context.empty(source.like(dtype)));
    context.reduction_buffers(cast.as_ref().unwrap_or(source).layout(), &over.dims, reduction);
    drop(cast);
    result
}
