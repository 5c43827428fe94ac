//! Reading and writing along one dimension: gather, scatter, index_select and their like.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::pieces::{Picked, copy_of, written};
use crate::autograd::{Backward, Context, Edge, Gradients, Node};
use crate::operators::call::{Call, Outcome, Unmodelled};
use crate::operators::view::expanded;

pub(super) fn gather(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty_contiguous(source.dtype(), index.shape());
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn index_select(context: &mut Context, call: &Call<'_>) -> Outcome {
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
        let target = node.wants(0).then(|| context.empty(gradient.like(gradient.dtype())));
        let written = node.wants(1).then(|| context.empty_contiguous(gradient.dtype(), index.shape()));
        smallvec![target, written]
    }
}

fn record_scatter(context: &mut Context, call: &Call<'_>) -> Result<Option<Edge>, Unmodelled> {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone())];
    Ok(context.record(&[Some(source), call.optional_tensor(3)], 1, saved, Scattered))
}

pub(super) fn scatter(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = copy_of(context, call.tensor(0)?);
    let edge = record_scatter(context, call)?;
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn scatter_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let edge = record_scatter(context, call)?;
    written(call, edge)
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

fn record_scatter_add(context: &mut Context, call: &Call<'_>) -> Result<Option<Edge>, Unmodelled> {
    let (source, index, added) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    if index.shape() != added.shape() {
        return Err(Unmodelled);
    }
    let saved = |wants: &dyn Fn(usize) -> bool| smallvec![wants(1).then(|| index.clone())];
    Ok(context.record(&[Some(source), Some(added)], 1, saved, ScatterAdded))
}

pub(super) fn scatter_add(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = copy_of(context, call.tensor(0)?);
    let edge = record_scatter_add(context, call)?;
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn scatter_add_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let edge = record_scatter_add(context, call)?;
    written(call, edge)
}

fn record_index_add(context: &mut Context, call: &Call<'_>) -> Result<Option<Edge>, Unmodelled> {
    let (source, index, added) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    let saved =
        |wants: &dyn Fn(usize) -> bool| smallvec![wants(1).then(|| index.clone()), wants(1).then(|| added.clone())];
    Ok(context.record(&[Some(source), Some(added)], 1, saved, ScatterAdded))
}

pub(super) fn index_add(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = copy_of(context, call.tensor(0)?);
    let edge = record_index_add(context, call)?;
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn index_add_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let edge = record_index_add(context, call)?;
    written(call, edge)
}

/// What was overwritten gets a copy of the gradient with zeros there, what was written the gradient from there.
fn record_index_copy(context: &mut Context, call: &Call<'_>) -> Result<Option<Edge>, Unmodelled> {
    #[derive(Debug)]
    struct Copied;
    impl Backward for Copied {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let target = node.wants(0).then(|| copy_of(context, &gradient));
            let written = node.wants(1).then(|| context.empty_contiguous(gradient.dtype(), node.saved(1).shape()));
            smallvec![target, written]
        }
    }
    let (source, index, written) = (call.tensor(0)?, call.tensor(2)?, call.tensor(3)?);
    let saved = |wants: &dyn Fn(usize) -> bool| smallvec![Some(index.clone()), wants(1).then(|| written.clone())];
    Ok(context.record(&[Some(source), Some(written)], 1, saved, Copied))
}

pub(super) fn index_copy(context: &mut Context, call: &Call<'_>) -> Outcome {
    let result = copy_of(context, call.tensor(0)?);
    let edge = record_index_copy(context, call)?;
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn index_copy_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let edge = record_index_copy(context, call)?;
    written(call, edge)
}

/// `gather` of tensors that broadcast.
pub(super) fn take_along(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(1)?);
    if call.is_none(2) {
        return Err(Unmodelled);
    }
    let dim = call.dim(2, source.shape().len())?;
    let with = |own: &[i64], other: &[i64]| -> Dims {
        own.iter()
            .zip(other)
            .enumerate()
            .map(|(at, (&own, &other))| if at == dim { own } else { own.max(other) })
            .collect()
    };
    let wide = expanded(context, source, &with(source.shape(), index.shape()))?.pop().ok_or(Unmodelled)?;
    // Indices from the end are counted from the front first.
    let wrapped = copy_of(context, index);
    let places = expanded(context, &wrapped, &with(index.shape(), source.shape()))?.pop().ok_or(Unmodelled)?;
    drop(wrapped);
    let result = context.empty_contiguous(source.dtype(), places.shape());
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(places.clone()), Some(wide.clone())];
    let edge = context.record(&[Some(&wide)], 1, saved, Picked(wide.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

/// Elements by their places in the flat tensor.
pub(super) fn take(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(1)?);
    let result = context.empty_contiguous(source.dtype(), index.shape());
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone()), Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

/// Writes by place in the flat tensor, or adds there.
pub(super) fn put(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct Put {
        is_added: bool,
    }
    impl Backward for Put {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let shape = node.inputs[1].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
            let target = node.wants(0).then(|| {
                if self.is_added {
                    return gradient.clone();
                }
                let zeros = context.empty_contiguous(gradient.dtype(), &shape);
                let copy = copy_of(context, &gradient);
                drop(zeros);
                copy
            });
            let written = node.wants(1).then(|| context.empty_contiguous(gradient.dtype(), &shape));
            smallvec![target, written]
        }
    }
    let (target, index, written) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    let is_added = call.bool(3).unwrap_or(false);
    let result = copy_of(context, target);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone()), Some(written.clone())];
    let edge = context.record(&[Some(target), Some(written)], 1, saved, Put { is_added });
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn index_fill(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, index) = (call.tensor(0)?, call.tensor(2)?);
    let result = context.empty(source.like(source.dtype()));
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(index.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Picked(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}
