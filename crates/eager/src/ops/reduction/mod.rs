//! Reductions: a result, the buffers of a split kernel, and gradients that are spread out again.

mod extreme;
mod moment;
mod product;
mod scan;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;

use super::call::wrap;
use super::pointwise::elementwise;
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::autograd::Tensor;
use crate::autograd::{Backward, Gradients, Node};
use crate::kernels::reduce::Reduction;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

pub(super) fn rule(name: &str) -> Option<Rule> {
    sums(name)
        .or_else(|| moment::rule(name))
        .or_else(|| extreme::rule(name))
        .or_else(|| scan::rule(name))
        .or_else(|| product::rule(name))
}

fn sums(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.sum.default" => |context, call| sum(context, call, &Over::all(call)?, false),
        "aten.sum.dim_IntList" => |context, call| sum(context, call, &Over::listed(call)?, false),
        "aten.mean.default" => |context, call| sum(context, call, &Over::all(call)?, true),
        "aten.mean.dim" => |context, call| sum(context, call, &Over::listed(call)?, true),
        "aten.any.default" | "aten.all.default" => |context, call| truth(context, call, &Over::all(call)?),
        "aten.any.dim" | "aten.all.dim" | "aten.any.dims" | "aten.all.dims" => {
            |context, call| truth(context, call, &Over::listed(call)?)
        }
        _ => return None,
    })
}

/// Which dimensions are reduced.
#[derive(Clone, Debug)]
struct Over {
    /// Counted from the front, in order.
    dims: Dims,
    keeps_dims: bool,
}

impl Over {
    fn all(call: &Call<'_>) -> Result<Over, Unmodelled> {
        let rank = call.tensor(0)?.shape().len();
        Ok(Over { dims: (0..rank as i64).collect(), keeps_dims: false })
    }

    /// The dimensions that are argument 1, and whether argument 2 keeps them.
    fn listed(call: &Call<'_>) -> Result<Over, Unmodelled> {
        Over::at(call, 1, 2)
    }

    fn at(call: &Call<'_>, dims: usize, keeps: usize) -> Result<Over, Unmodelled> {
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

    fn has(&self, dim: usize) -> bool {
        self.dims.contains(&(dim as i64))
    }

    fn shape(&self, source: &[i64]) -> Dims {
        (0..source.len())
            .filter(|&dim| self.keeps_dims || !self.has(dim))
            .map(|dim| if self.has(dim) { 1 } else { source[dim] })
            .collect()
    }

    fn keeping(&self) -> Over {
        Over { keeps_dims: true, ..self.clone() }
    }

    /// A result seen with the reduced dimensions put back as ones.
    fn restored(&self, tensor: &Tensor, source: &[i64]) -> Tensor {
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
    fn spread(&self, gradient: &Tensor, source: &[i64]) -> Tensor {
        let seen = self.restored(gradient, source);
        let strides = (0..source.len()).map(|dim| if self.has(dim) { 0 } else { seen.layout().strides[dim] }).collect();
        gradient.view(Layout { dtype: gradient.dtype(), shape: source.into(), strides })
    }
}

/// The result of a reduction with the kernel's buffers; an input of another type is cast first, unless it is in half
/// precision and summed in single.
fn reduced(context: &Context, source: &Tensor, over: &Over, dtype: Dtype, reduction: Reduction) -> Tensor {
    let result = context.empty_contiguous(dtype, &over.shape(source.shape()));
    let is_read_as_is = source.dtype() == dtype || (source.dtype().is_half() && dtype == Dtype::Float32);
    let cast = (!is_read_as_is).then(|| context.empty(source.like(dtype)));
    context.reduction_buffers(cast.as_ref().unwrap_or(source).layout(), &over.dims, reduction);
    drop(cast);
    result
}

/// A sum: the gradient is a view. A mean: divided by the count.
#[derive(Debug)]
struct Summed {
    over: Over,
    source: Dims,
    is_mean: bool,
}

impl Backward for Summed {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| {
            let wide = self.over.spread(gradient, &self.source);
            if self.is_mean { elementwise(context, &[&wide], wide.dtype()) } else { wide }
        })]
    }
}

fn sum(context: &mut Context, call: &Call<'_>, over: &Over, is_mean: bool) -> Outcome {
    let source = call.tensor(0)?;
    let dtype = call.result(0)?.dtype;
    let result = reduced(context, source, over, dtype, Reduction::summing(dtype));
    let backward = Summed { over: over.clone(), source: source.shape().into(), is_mean };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The mean over `dims`, which are kept as ones, in the graph.
pub(super) fn mean(context: &mut Context, source: &Tensor, dims: &[i64]) -> Tensor {
    let over = Over { dims: dims.into(), keeps_dims: true };
    let dtype = source.dtype();
    let result = reduced(context, source, &over, dtype, Reduction::summing(dtype));
    let backward = Summed { over, source: source.shape().into(), is_mean: true };
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    result.with_edge(edge)
}

fn truth(context: &mut Context, call: &Call<'_>, over: &Over) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(call.result(0)?.dtype, &over.shape(source.shape()));
    let reduction = Reduction { partial_bytes: 1, input_vector: 4, max_threads: 512 };
    context.reduction_buffers(source.layout(), &over.dims, reduction);
    Ok(smallvec![result])
}
