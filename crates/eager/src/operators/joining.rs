//! Joining and cutting: cat, stack, block_diag, split, chunk, unbind.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled, wrap};
use super::facts::*;
use super::function::Function;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Nothing, Autocast::Unchanged, Samples::Linear);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.block_diag.default"],
        Facts { memory: Modelled(block_diag), samples: Samples::Unknown, ..FAMILY },
    ),
    Operator::new(
        &["aten.cat.default"],
        Facts {
            memory: Modelled(cat),
            time: Time::moves("cat", Extent::HalfResult),
            overwrite: Overwrite::Allowed,
            promotion: Promotion::Widest,
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.cat.names", "aten.concat.names"],
        Facts { time: Time::moves("cat", Extent::HalfResult), promotion: Promotion::Widest, ..FAMILY },
    ),
    Operator::new(
        &["aten.concat.default"],
        Facts {
            memory: Modelled(cat),
            time: Time::moves("cat", Extent::HalfResult),
            promotion: Promotion::Widest,
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(&["aten.concatenate.default"], Facts { memory: Modelled(cat), samples: Samples::Linear, ..FAMILY }),
    Operator::new(
        &["aten.stack.default"],
        Facts {
            memory: Modelled(stack),
            time: Time::moves("cat", Extent::HalfResult),
            promotion: Promotion::Widest,
            samples: Samples::Linear,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.split.Tensor", "aten.split.sizes", "aten.chunk.default"],
        Facts {
            memory: Modelled(split),
            time: Time::moves("contiguous", Extent::Result),
            view_dispatch: "slice",
            effect: Effect::ListsViews,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.split.default"],
        Facts {
            time: Time::moves("contiguous", Extent::Result),
            view_dispatch: "slice",
            effect: Effect::ListsViews,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.split_with_sizes.default"],
        Facts { memory: Modelled(split), effect: Effect::ListsViews, samples: Samples::Part, ..FAMILY },
    ),
    Operator::new(
        &["aten.unbind.int"],
        Facts {
            memory: Modelled(unbind),
            time: Time::moves("contiguous", Extent::Result),
            view_dispatch: "slice",
            effect: Effect::ListsViews,
            samples: Samples::Part,
            ..FAMILY
        },
    ),
    Operator::new(
        &[
            "aten.hsplit.array",
            "aten.hsplit.int",
            "aten.unsafe_chunk.default",
            "aten.unsafe_split.Tensor",
            "aten.vsplit.array",
            "aten.vsplit.int",
        ],
        Facts { effect: Effect::ListsViews, samples: Samples::Part, ..FAMILY },
    ),
];

/// Parts put one after another: each part's gradient is a part of the gradient.
#[derive(Debug)]
struct Joined {
    dim: usize,
    sizes: Dims,
}

impl Backward for Joined {
    fn apply(&self, _context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].as_ref() else { return smallvec![None; self.sizes.len()] };
        let part = |index: usize| {
            let mut layout = gradient.layout().clone();
            layout.shape[self.dim] = self.sizes[index];
            gradient.view(layout)
        };
        (0..self.sizes.len()).map(|index| node.wants(index).then(|| part(index))).collect()
    }
}

fn cat(context: &mut Context, call: &Call<'_>) -> Outcome {
    let tensors = call.tensor_list(0)?;
    let wanted = call.result(0)?;
    let dim = call.dim(1, wanted.shape.len())?;
    // The parts' format, where all have the same.
    let mut formats = tensors.iter().map(|tensor| Format::suggested(tensor.layout()));
    let format = formats.next().filter(|first| formats.all(|next| next == *first)).unwrap_or(Format::Contiguous);
    let result = context.empty(format.layout(wanted.dtype, &wanted.shape));
    let size = |tensor: &&Tensor| tensor.shape().get(dim).copied().unwrap_or(0);
    let sizes = tensors.iter().map(size).collect();
    let inputs: SmallVec<[Option<&Tensor>; 4]> = tensors.iter().copied().map(Some).collect();
    let edge = context.record(&inputs, 1, |_| smallvec![], Joined { dim, sizes });
    Ok(smallvec![result.with_edge(edge)])
}

/// Tensors put side by side in a new dimension: each one's gradient is a slice of the gradient.
#[derive(Debug)]
struct Stacked {
    dim: usize,
    count: usize,
}

impl Backward for Stacked {
    fn apply(&self, _context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].as_ref() else { return smallvec![None; self.count] };
        let layout = without(gradient.layout(), self.dim);
        (0..self.count).map(|index| node.wants(index).then(|| gradient.view(layout.clone()))).collect()
    }
}

fn without(layout: &Layout, dim: usize) -> Layout {
    let keep =
        |dims: &Dims| dims.iter().enumerate().filter(|(place, _)| *place != dim).map(|(_, &size)| size).collect();
    Layout { dtype: layout.dtype, shape: keep(&layout.shape), strides: keep(&layout.strides) }
}

fn stack(context: &mut Context, call: &Call<'_>) -> Outcome {
    let tensors = call.tensor_list(0)?;
    let wanted = call.result(0)?;
    let dim = wrap(call.int(1).unwrap_or(0), wanted.shape.len())?;
    Ok(smallvec![stacked_at(context, &tensors, dim, &wanted)])
}

fn stacked_at(context: &mut Context, tensors: &[&Tensor], dim: usize, wanted: &Layout) -> Tensor {
    let result = context.empty_contiguous(wanted.dtype, &wanted.shape);
    let inputs: SmallVec<[Option<&Tensor>; 4]> = tensors.iter().copied().map(Some).collect();
    let edge = context.record(&inputs, 1, |_| smallvec![], Stacked { dim, count: tensors.len() });
    result.with_edge(edge)
}

/// `torch.stack` of numbers.
pub(super) fn stacked(context: &mut Context, numbers: &[Tensor]) -> Tensor {
    let dtype = numbers.first().map_or(Dtype::Float32, Tensor::dtype);
    let wanted = Layout::contiguous(dtype, &[numbers.len() as i64]);
    stacked_at(context, &numbers.iter().collect::<Vec<_>>(), 0, &wanted)
}

/// Parts of a tensor, all from one call: their gradients are joined again, zeros standing in for those that did not
/// come.
#[derive(Debug)]
struct Cut {
    shape: Dims,
    parts: SmallVec<[Dims; 3]>,
}

impl Backward for Cut {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(dtype) = gradients.iter().flatten().map(Tensor::dtype).next() else { return smallvec![None] };
        let zeros: SmallVec<[Option<Tensor>; 3]> = self
            .parts
            .iter()
            .zip(gradients.iter())
            .map(|(shape, gradient)| gradient.is_none().then(|| context.empty_contiguous(dtype, shape)))
            .collect();
        let result = context.empty_contiguous(dtype, &self.shape);
        drop(zeros);
        smallvec![Some(result)]
    }
}

pub(super) fn cut(context: &mut Context, source: &Tensor, parts: SmallVec<[Layout; 3]>) -> Outcome {
    let shapes = parts.iter().map(|part| part.shape.clone()).collect();
    let backward = Cut { shape: source.shape().into(), parts: shapes };
    let edge = context.record(&[Some(source)], parts.len(), |_| smallvec![], backward);
    Ok(parts
        .into_iter()
        .enumerate()
        .map(|(output, layout)| source.view(layout).with_edge(edge.clone().map(|edge| Edge { output, ..edge })))
        .collect())
}

fn split(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let parts = (0..call.captured.len())
        .map(|index| {
            let shape = call.result(index)?.shape;
            Ok(Layout { dtype: source.dtype(), shape, strides: source.layout().strides.clone() })
        })
        .collect::<Result<SmallVec<[Layout; 3]>, Unmodelled>>()?;
    cut(context, source, parts)
}

fn unbind(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let dim = call.dim(1, source.shape().len())?;
    let layout = without(source.layout(), dim);
    let count = source.shape()[dim];
    cut(context, source, (0..count).map(|_| layout.clone()).collect())
}

/// Matrices along a diagonal: their gradients are parts of the gradient.
fn block_diag(context: &mut Context, call: &Call<'_>) -> Outcome {
    let matrices = call.tensor_list(0)?;
    if matrices.iter().any(|matrix| matrix.shape().len() != 2) {
        return Err(Unmodelled);
    }
    let result = context.empty(call.result(0)?);
    let backward = Function((), |&(), _, node, gradient| {
        let part = |input: &Option<std::rc::Rc<Layout>>| {
            let shape = input.as_ref()?.shape.clone();
            Some(gradient.view(Layout { dtype: gradient.dtype(), shape, strides: gradient.layout().strides.clone() }))
        };
        node.inputs.iter().map(part).collect()
    });
    let inputs: Vec<Option<&Tensor>> = matrices.into_iter().map(Some).collect();
    let edge = context.record(&inputs, 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}
