//! `x[indices]`. Masks become the places where they are true.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::bind::Value;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::pieces::{indices, spread};
use super::selected::nonzero;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome, Unmodelled};

/// Index tensors by dimension of what is indexed; `None` takes a whole dimension.
pub(super) type Indices = SmallVec<[Option<Tensor>; 4]>;

/// The index tensors of a call as they are given.
pub(super) fn given_indices(call: &Call<'_>) -> Result<Indices, Unmodelled> {
    let Some(Value::List(values)) = call.arguments.get(1) else { return Err(Unmodelled) };
    values
        .iter()
        .map(|value| match value {
            Value::None => Ok(None),
            Value::Tensor(id) => {
                call.tensors.get(id.0 as usize).and_then(Option::as_ref).cloned().map(Some).ok_or(Unmodelled)
            }
            _ => Err(Unmodelled),
        })
        .collect()
}

pub(super) fn is_mask(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), Dtype::Bool | Dtype::Uint8)
}

/// Masks turned into the places where they are true, each of which is `count`; other whole numbers cast, and what is on the
/// host moved, unless that comes later.
pub(super) fn as_places(context: &Context, given: &Indices, count: i64, is_moved: bool) -> Indices {
    let mut places = Indices::new();
    for tensor in given {
        match tensor {
            Some(mask) if is_mask(mask) => {
                let found = nonzero(context, mask, count);
                let layout = Layout::contiguous(Dtype::Int64, &[count]);
                places.extend((0..mask.shape().len()).map(|_| Some(found.unsafe_view(layout.clone()))));
            }
            Some(other) if other.is_on_host() && !is_moved => places.push(Some(other.clone())),
            Some(other) if other.dtype() != Dtype::Int64 || other.is_on_host() => {
                places.push(Some(context.empty(other.like(Dtype::Int64))));
            }
            other => places.push(other.clone()),
        }
    }
    places
}

/// The shape that index tensors broadcast to.
pub(super) fn broadcast(places: &Indices) -> Dims {
    let rank = places.iter().flatten().map(|tensor| tensor.shape().len()).max().unwrap_or(0);
    let mut shape = Dims::filled(1, rank);
    for tensor in places.iter().flatten() {
        let skipped = rank - tensor.shape().len();
        for (dim, &size) in tensor.shape().iter().enumerate() {
            if shape[skipped + dim] == 1 {
                shape[skipped + dim] = size;
            }
        }
    }
    shape
}

/// How many places masks have: the size of the result where the indexed dimensions stood.
fn places_of_masks(given: &Indices, shape: &[i64]) -> Result<i64, Unmodelled> {
    if !given.iter().flatten().any(is_mask) {
        return Ok(0);
    }
    if given.iter().flatten().any(|tensor| !is_mask(tensor) && tensor.shape().len() > 1) {
        return Err(Unmodelled);
    }
    let first = given.iter().position(Option::is_some).unwrap_or(0);
    let is_apart = given[first..].iter().skip_while(|place| place.is_some()).any(Option::is_some);
    shape.get(if is_apart { 0 } else { first }).copied().ok_or(Unmodelled)
}

pub(super) fn index(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let given = given_indices(call)?;
    let wanted = call.result(0)?.shape;
    let count = places_of_masks(&given, &wanted)?;
    let result = picked(context, source, &given, count, &wanted);
    let saved = |_: &dyn Fn(usize) -> bool| given.iter().flatten().cloned().map(Some).collect();
    let backward = Indexed { source: source.shape().into(), given: shapes_of(&given), count };
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The elements at the indices. Several index tensors with different strides are copied first.
pub(super) fn picked(context: &Context, source: &Tensor, given: &Indices, count: i64, wanted: &[i64]) -> Tensor {
    let places = as_places(context, given, count, true);
    let shape = broadcast(&places);
    let layouts: SmallVec<[Layout; 4]> = places.iter().flatten().map(|tensor| spread(tensor, &shape)).collect();
    let is_alike = layouts.iter().all(|layout| layout.strides == layouts[0].strides);
    let mut copies: SmallVec<[Option<Tensor>; 4]> =
        layouts.iter().map(|layout| (!is_alike && !layout.is_contiguous()).then(|| indices(context, &shape))).collect();
    let result = context.empty_contiguous(source.dtype(), wanted);
    // The newest go first.
    while copies.pop().is_some() {}
    result
}

/// Which dimensions are indexed.
pub(super) fn shapes_of(given: &Indices) -> SmallVec<[bool; 4]> {
    given.iter().map(Option::is_some).collect()
}

/// The saved indices in their dimensions.
pub(super) fn saved_indices(node: &Node, given: &[bool]) -> Indices {
    let saved = node.saved.borrow();
    let mut saved = saved.iter().flatten();
    given.iter().map(|is_given| if *is_given { saved.next().cloned() } else { None }).collect()
}

/// Picked by indices: the gradient is added up in zeros after sorting the indices.
#[derive(Debug)]
struct Indexed {
    source: Dims,
    given: SmallVec<[bool; 4]>,
    count: i64,
}

impl Backward for Indexed {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None] };
        let result = context.empty_contiguous(gradient.dtype(), &self.source);
        let given = saved_indices(node, &self.given);
        let places = as_places(context, &given, self.count, false);
        add_by_sorting(context, &self.source, places, Some(&gradient));
        smallvec![Some(result)]
    }
}

/// `index_put_` with accumulation (`index_put_with_sort_kernel` in `Indexing.cu`): one flat index of each element, sorted. What
/// is added is read from contiguous memory. An index on the host is wrapped and scaled there, then moved.
pub(super) fn add_by_sorting(context: &mut Context, source: &[i64], places: Indices, added: Option<&Tensor>) {
    let shape = broadcast(&places);
    let mut flat: Option<Tensor> = None;
    for place in places.iter().flatten() {
        let wrapped = (!place.is_on_host()).then(|| indices(context, place.shape()));
        let scaled = indices(context, place.shape());
        drop(wrapped);
        flat.get_or_insert(scaled);
    }
    let indexed = |dim: usize| places.get(dim).is_some_and(Option::is_some);
    let rows: i64 = (0..source.len()).filter(|&dim| indexed(dim)).map(|dim| source[dim]).product();
    // Dimensions before the indexed ones are part of a row's number.
    let first = (0..source.len()).find(|&dim| indexed(dim)).unwrap_or(0);
    let before: i64 = source[..first].iter().product();
    let count: i64 = shape.iter().product();
    drop(places);
    let flat = flat.filter(|flat| flat.shape() == shape.as_slice()).unwrap_or_else(|| indices(context, &shape));
    let read = added.map(|added| context.contiguous(added));
    let sorted = indices(context, &shape);
    let original = indices(context, &shape);
    let range = indices(context, &shape);
    drop(context.scratch(cub::radix_sort_pairs_of(count, bits_of(rows * before - 1))));
    drop(range);
    drop(original);
    drop(sorted);
    drop(read);
    drop(flat);
}

/// How many bits the largest key has.
fn bits_of(largest: i64) -> u64 {
    u64::from(64 - largest.max(1).leading_zeros())
}
