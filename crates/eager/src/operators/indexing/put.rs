//! Writing to `x[indices]`: index_put.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::advanced::{
    Indices, add_by_sorting, as_places, broadcast, given_indices, is_mask, picked, saved_indices, shapes_of,
};
use super::pieces::{copy_of, written};
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::kernels::cub;
use crate::operators::call::{Call, Outcome, Unmodelled};

/// Written by indices: what was there gets a copy of the gradient with zeros there, unless it was added to; what was
/// written gets the gradient from there.
#[derive(Debug)]
struct Put {
    given: SmallVec<[bool; 4]>,
    /// The shape of the zeros that are written into the gradient; a number on the host needs no memory.
    zeros: Option<Dims>,
    /// Whether that number is moved to the GPU.
    is_moved: bool,
    is_added: bool,
    picks: Picks,
    /// The shape of what stands at the indices.
    wanted: Dims,
    /// The shape of what was written there.
    written: Dims,
}

/// How many elements a mask picks.
#[derive(Clone, Copy, Debug)]
enum Picks {
    /// There is no mask that is turned into places.
    NoMask,
    Known(i64),
    /// The capture does not show it. The mask has so many elements, in so many dimensions.
    Unknown {
        elements: i64,
        rank: i64,
    },
}

impl Picks {
    /// Finds the places, which are freed again.
    fn look(self, context: &mut Context, given: &Indices) {
        match self {
            Picks::NoMask => drop(as_places(context, given, 0, true)),
            Picks::Known(count) => drop(as_places(context, given, count, true)),
            Picks::Unknown { elements, rank } => some_places(context, elements, rank, 0),
        }
    }

    /// The elements at the places. What a mask picks without telling how many is added up at once.
    fn pick(self, context: &mut Context, source: &Tensor, given: &Indices, put: &Put) -> Tensor {
        let count = match self {
            Picks::NoMask => 0,
            Picks::Known(count) => count,
            Picks::Unknown { elements, rank } => {
                some_places(context, elements, rank, source.layout().bytes());
                return context.empty_contiguous(source.dtype(), &put.written);
            }
        };
        picked(context, source, given, count, &put.wanted)
    }
}

/// The places that a mask picks, and what is copied from there. How many there are is not known: between none and all.
fn some_places(context: &mut Context, elements: i64, rank: i64, copied: u64) {
    let bytes = |count: i64| Layout::contiguous(Dtype::Int64, &[rank, count]).bytes();
    let counter = context.scratch(4);
    drop(context.scratch(cub::count(elements)));
    let (expected, most) = (bytes(elements / 2) + copied / 2, bytes(elements) + copied);
    context.uncertain_workspace("places that a mask picks", (0, expected, most));
    drop(context.scratch(cub::select(elements)));
    drop(counter);
}

impl Backward for Put {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let target = node.wants(0).then(|| {
            if self.is_added {
                return gradient.clone();
            }
            let zeros = self.zeros.as_ref().map(|shape| context.empty_contiguous(gradient.dtype(), shape));
            let copy = copy_of(context, &gradient);
            if self.is_moved {
                drop(context.empty_contiguous(gradient.dtype(), &[]));
            }
            if !matches!(self.picks, Picks::NoMask) {
                self.picks.look(context, &saved_indices(node, &self.given));
            }
            drop(zeros);
            copy
        });
        let values = node.wants(1).then(|| {
            let given = saved_indices(node, &self.given);
            self.picks.pick(context, &gradient, &given, self)
        });
        smallvec![target, values]
    }
}

/// How many elements a mask picks: as many as another index has, or as values are written, one for each. Values that broadcast
/// do not show it.
fn picks_of_mask(given: &Indices, target: &Tensor, values: &Tensor) -> Result<Picks, Unmodelled> {
    let place = given.iter().position(|index| index.as_ref().is_some_and(is_mask)).ok_or(Unmodelled)?;
    let mask = given[place].as_ref().ok_or(Unmodelled)?;
    let rank = mask.shape().len();
    let unknown = Picks::Unknown { elements: mask.layout().elements(), rank: rank as i64 };
    let mut others = given.iter().flatten().filter(|index| !is_mask(index)).peekable();
    if others.peek().is_some() {
        let longest = others.map(|index| index.shape()).max_by_key(|shape| shape.iter().product::<i64>());
        return match longest {
            // One place may stand for as many as the mask picks.
            Some(&[1]) => Ok(unknown),
            Some(&[count]) => Ok(Picks::Known(count)),
            _ => Err(Unmodelled),
        };
    }
    if given.iter().flatten().count() > 1 {
        return Err(Unmodelled);
    }
    let is_whole = !values.is_on_host() && values.shape().len() + rank == target.shape().len() + 1;
    match values.shape().get(place).filter(|&&count| is_whole && count != 1) {
        Some(&count) => Ok(Picks::Known(count)),
        None => Ok(unknown),
    }
}

/// Writes, and puts that into the graph. `x[mask] = number` fills, without looking for places.
fn put(context: &mut Context, call: &Call<'_>, target: &Tensor) -> Result<Option<Edge>, Unmodelled> {
    let given = given_indices(call)?;
    let values = call.tensor(2)?;
    let is_added = call.bool(3).unwrap_or(false);
    let is_filled = values.is_on_host() && values.layout().elements() == 1 && !is_added;
    let has_mask = given.iter().flatten().any(is_mask);
    let is_filled_by_mask = has_mask && is_filled && given.iter().flatten().count() == 1;
    let picks = match has_mask && !is_filled_by_mask {
        true if is_added => return Err(Unmodelled),
        true => picks_of_mask(&given, target, values)?,
        false => Picks::NoMask,
    };
    if is_added {
        for _ in given.iter().flatten() {
            check_range(context);
        }
        let places = as_places(context, &given, 0, false);
        add_by_sorting(context, target.shape(), places, None);
    } else if !is_filled_by_mask {
        picks.look(context, &given);
        if is_filled {
            drop(context.empty_contiguous(target.dtype(), &[]));
        }
    }
    let is_moved = is_filled && !has_mask;
    let wanted = match picks {
        Picks::NoMask => picked_shape(target.shape(), &given, &broadcast(&given)),
        Picks::Known(count) => picked_shape(target.shape(), &given, &[count]),
        Picks::Unknown { .. } => values.shape().into(),
    };
    let saved = |_: &dyn Fn(usize) -> bool| given.iter().flatten().cloned().map(Some).collect();
    let zeros = (!values.is_on_host()).then(|| values.shape().into());
    let written = values.shape().into();
    let backward = Put { given: shapes_of(&given), zeros, is_moved, is_added, picks, wanted, written };
    Ok(context.record(&[Some(target), Some(values)], 1, saved, backward))
}

/// The largest and the smallest index are compared with the size, on the GPU.
fn check_range(context: &Context) {
    for _ in 0..2 {
        let extreme = context.empty_contiguous(Dtype::Int64, &[]);
        drop(context.empty_contiguous(Dtype::Bool, &[]));
        drop(extreme);
    }
}

/// The shape of what stands at the indices.
fn picked_shape(source: &[i64], given: &Indices, shape: &[i64]) -> Dims {
    let dims = indexed_dims(given);
    let first = dims.iter().position(|&is_indexed| is_indexed).unwrap_or(0);
    let is_apart = dims[first..].iter().skip_while(|&&is_indexed| is_indexed).any(|&is_indexed| is_indexed);
    let at = if is_apart { 0 } else { first };
    let kept: SmallVec<[i64; 6]> = (0..source.len())
        .filter(|&dim| !dims.get(dim).is_some_and(|&is_indexed| is_indexed))
        .map(|dim| source[dim])
        .collect();
    kept[..at].iter().chain(shape).chain(&kept[at..]).copied().collect()
}

/// Which dimensions are indexed; a mask stands for as many as it has.
fn indexed_dims(given: &Indices) -> SmallVec<[bool; 6]> {
    let mut dims = SmallVec::new();
    for index in given {
        let count = index.as_ref().filter(|index| is_mask(index)).map_or(1, |mask| mask.shape().len());
        dims.extend(std::iter::repeat_n(index.is_some(), count));
    }
    dims
}

pub(super) fn index_put(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = copy_of(context, source);
    let edge = put(context, call, source)?;
    Ok(smallvec![result.with_edge(edge)])
}

pub(super) fn index_put_in_place(context: &mut Context, call: &Call<'_>) -> Outcome {
    let edge = put(context, call, call.tensor(0)?)?;
    written(call, edge)
}
