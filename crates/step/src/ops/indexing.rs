//! Reading and writing by index: gather, scatter, index, index_select, topk.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::bind::Value;
use vramfit_graph::dtype::Dtype;

use super::joining::indices;
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::{Dims, Layout, Tensor};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.gather.default" => gather,
        "aten.index_select.default" => index_select,
        "aten.scatter.src" | "aten.scatter.value" => scatter,
        "aten.scatter_add.default" => scatter_add,
        "aten.index_add.default" => index_add,
        "aten.index_fill.int_Scalar" => index_fill,
        "aten.index.Tensor" => index,
        "aten.topk.default" => topk,
        _ => return None,
    })
}

/// The gradient is put into zeros of the input's shape.
#[derive(Debug)]
struct Picked(Dims);

impl Backward for Picked {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

fn gather(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty_contiguous(source.dtype(), index.shape());
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

fn index_select(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

/// What was overwritten gets the gradient with zeros there, what was written the gradient from there.
#[derive(Debug)]
struct Scattered;

impl Backward for Scattered {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let index = node.saved(0);
        let target = node.wants(0).then(|| context.empty(gradient.layout().like(gradient.dtype())));
        let written = node.wants(1).then(|| context.empty_contiguous(gradient.dtype(), index.shape()));
        smallvec![target, written]
    }
}

fn scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty(source.layout().like(source.dtype()));
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone())];
    let edge = context.record(&[Some(source), call.optional_tensor(3)], 1, saved, Scattered);
    Ok(smallvec![result.with_edge(edge)])
}

/// What was added to gets the gradient itself, what was added the gradient from there.
#[derive(Debug)]
struct ScatterAdded;

impl Backward for ScatterAdded {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let added = node.wants(1).then(|| {
            let shape = node.inputs[1].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
            context.empty_contiguous(gradient.dtype(), &shape)
        });
        smallvec![node.wants(0).then_some(gradient), added]
    }
}

fn scatter_add(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index, added) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    if index.shape() != added.shape() {
        return Err(Unmodelled);
    }
    let result = context.empty(source.layout().like(source.dtype()));
    let saved = |wants: &dyn Fn(usize) -> bool| smallvec![wants(1).then(|| index.clone())];
    let edge = context.record(&[Some(source), Some(added)], 1, saved, ScatterAdded);
    Ok(smallvec![result.with_edge(edge)])
}

fn index_add(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index, added) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    let result = context.empty(source.layout().like(source.dtype()));
    let saved =
        |wants: &dyn Fn(usize) -> bool| smallvec![wants(1).then(|| index.clone()), wants(1).then(|| added.clone())];
    let edge = context.record(&[Some(source), Some(added)], 1, saved, ScatterAdded);
    Ok(smallvec![result.with_edge(edge)])
}

fn index_fill(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty(source.layout().like(source.dtype()));
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

/// The index tensors of a call, by dimension.
fn given_indices<'a>(call: &'a Call<'_>) -> Result<SmallVec<[Option<&'a Tensor>; 4]>, Unmodelled> {
    let Some(Value::List(values)) = call.arguments.get(1) else { return Err(Unmodelled) };
    values
        .iter()
        .map(|value| match value {
            Value::None => Ok(None),
            Value::Tensor(id) => call.tensors.get(id.0 as usize).and_then(Option::as_ref).map(Some).ok_or(Unmodelled),
            _ => Err(Unmodelled),
        })
        .collect()
}

/// The shape that index tensors broadcast to.
fn broadcast(tensors: &[&Tensor]) -> Dims {
    let rank = tensors.iter().map(|tensor| tensor.shape().len()).max().unwrap_or(0);
    let mut shape = Dims::filled(1, rank);
    for tensor in tensors {
        let skipped = rank - tensor.shape().len();
        for (dim, &size) in tensor.shape().iter().enumerate() {
            if shape[skipped + dim] == 1 {
                shape[skipped + dim] = size;
            }
        }
    }
    shape
}

/// A tensor seen in the shape it broadcasts to.
fn spread(tensor: &Tensor, shape: &[i64]) -> Layout {
    let skipped = shape.len() - tensor.shape().len();
    let strides = (0..shape.len())
        .map(|dim| match dim.checked_sub(skipped) {
            Some(place) if tensor.shape()[place] == shape[dim] => tensor.layout().strides[place],
            _ => 0,
        })
        .collect();
    Layout { dtype: tensor.dtype(), shape: shape.into(), strides }
}

fn index(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let given = given_indices(call)?;
    let tensors: SmallVec<[&Tensor; 4]> = given.iter().flatten().copied().collect();
    if tensors.iter().any(|tensor| matches!(tensor.dtype(), Dtype::Bool | Dtype::Uint8)) {
        // How many elements a mask picks, and CUB's scratch for counting them, depend on the data.
        return Err(Unmodelled);
    }
    // Other whole numbers are cast, and several indices are made to lie alike.
    let casts: SmallVec<[Option<Tensor>; 4]> = tensors
        .iter()
        .map(|tensor| {
            let is_cast = tensor.dtype() != Dtype::Int64 || tensor.is_on_host();
            is_cast.then(|| context.empty(tensor.layout().like(Dtype::Int64)))
        })
        .collect();
    let seen: SmallVec<[&Tensor; 4]> =
        tensors.iter().zip(&casts).map(|(tensor, cast)| cast.as_ref().unwrap_or(tensor)).collect();
    let shape = broadcast(&seen);
    let layouts: SmallVec<[Layout; 4]> = seen.iter().map(|tensor| spread(tensor, &shape)).collect();
    let is_alike = layouts.iter().all(|layout| layout.strides == layouts[0].strides);
    let mut copies: SmallVec<[Option<Tensor>; 4]> =
        layouts.iter().map(|layout| (!is_alike && !layout.is_contiguous()).then(|| indices(context, &shape))).collect();
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    // The newest go first.
    while copies.pop().is_some() {}
    drop(seen);
    drop(casts);
    if context.is_grad_on() && source.requires_grad() {
        return picked(context, source, &tensors, &shape, result);
    }
    Ok(smallvec![result])
}

/// The most indices that CUB sorts within one block of threads, without scratch of its own.
const SMALL_SORT: i64 = 2048;

/// Picked by indices: the gradient is added up in zeros after sorting the indices.
#[derive(Debug)]
struct Indexed {
    source: Dims,
    shape: Dims,
}

impl Backward for Indexed {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let result = context.empty_contiguous(gradient.dtype(), &self.source);
        let wrapped = indices(context, &self.shape);
        let linear = indices(context, &self.shape);
        drop(wrapped);
        let sorted = indices(context, &self.shape);
        let original = indices(context, &self.shape);
        let places = indices(context, &self.shape);
        drop(context.scratch(1));
        drop(places);
        drop(original);
        drop(sorted);
        drop(linear);
        smallvec![Some(result)]
    }
}

fn picked(context: &mut Context, source: &Tensor, tensors: &[&Tensor], shape: &[i64], result: Tensor) -> Outcome {
    let count: i64 = shape.iter().product();
    if tensors.len() != 1 || count > SMALL_SORT {
        return Err(Unmodelled);
    }
    let saved = |_: &dyn Fn(usize) -> bool| tensors.iter().map(|tensor| Some((*tensor).clone())).collect();
    let backward = Indexed { source: source.shape().into(), shape: shape.into() };
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The largest elements of short rows; long ones are sorted in several passes.
fn topk(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let rank = source.shape().len();
    let dim = call.dim(2, rank)?;
    if dim + 1 != rank || source.shape()[dim] > 4096 {
        return Err(Unmodelled);
    }
    let shape = call.result(0)?.shape;
    let values = context.empty_contiguous(source.dtype(), &shape);
    let places = indices(context, &shape);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(places.detach())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![values.with_edge(edge), places])
}
