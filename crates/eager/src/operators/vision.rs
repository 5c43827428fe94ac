//! torchvision's own operators: boxes that are kept, regions of images, deformable convolutions.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;
use vramfit_graph::dtype::Dtype;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::function::Function;
use super::indexing::{nonzero, sorted};
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Inputs,
    Autocast::Unchanged,
    Samples::Unknown,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(&["torchvision.nms.default"], Facts { memory: Modelled(nms), keeps: Keeps::Nothing, ..FAMILY }),
    Operator::new(&["torchvision.roi_align.default"], Facts { memory: Modelled(roi_align), ..FAMILY }),
    Operator::new(
        &["torchvision.roi_pool.default"],
        Facts { memory: Modelled(roi_pool), keeps: Keeps::Results, ..FAMILY },
    ),
    Operator::new(
        &["torchvision.deform_conv2d.default"],
        Facts { memory: Modelled(deformed), samples: Samples::First, ..FAMILY },
    ),
];

/// Boxes whose overlaps one number of 64 bits holds.
const BOXES_A_NUMBER: i64 = 64;

/// Boxes by their scores, a bit for each pair that overlaps, and the boxes that are kept: as many as in the capture.
fn nms(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (boxes, scores) = (call.tensor(0)?, call.tensor(1)?);
    let kept = call.result(0)?;
    let count = boxes.shape().first().copied().ok_or(Unmodelled)?;
    if count == 0 {
        return Ok(smallvec![context.empty(kept)]);
    }
    let (values, order) = sorted(context, scores, 0)?;
    drop(values);
    let by_score = context.empty_contiguous(boxes.dtype(), boxes.shape());
    let columns = (count + BOXES_A_NUMBER - 1) / BOXES_A_NUMBER;
    let overlaps = context.empty_contiguous(Dtype::Int64, &[count * columns]);
    let is_kept = context.empty_contiguous(Dtype::Bool, &[count]);
    let places = nonzero(context, &is_kept, kept.elements());
    let result = context.empty(kept);
    drop((places, is_kept, overlaps, by_score, order));
    Ok(smallvec![result])
}

fn roi_align(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, regions) = (call.tensor(0)?, call.tensor(1)?);
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    let read = (context.contiguous(source), context.contiguous(regions));
    drop(read);
    let backward = Function(Dims::from(source.shape()), |shape, context, _, gradient| {
        smallvec![Some(context.empty_contiguous(gradient.dtype(), shape)), None]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(regions.clone())];
    let edge = context.record(&[Some(source), Some(regions)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// The places have a gradient too: zeros, which nobody reads.
#[derive(Debug)]
struct RoiPool(Dims);

impl Backward for RoiPool {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let places = node.saved(1);
        gradients.resize(2, None);
        gradients[1].get_or_insert_with(|| context.empty(places.shared_layout()));
        let gradient = gradients[0].as_ref();
        smallvec![gradient.map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0)), None]
    }
}

fn roi_pool(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, regions) = (call.tensor(0)?, call.tensor(1)?);
    let shape = call.result(0)?.shape;
    let result = context.empty_contiguous(source.dtype(), &shape);
    let places = context.empty_contiguous(Dtype::Int32, &shape);
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(regions.clone()), Some(places.detach())];
    let edge = context.record(&[Some(source), Some(regions)], 2, saved, RoiPool(source.shape().into()));
    Ok(smallvec![result.with_edge(edge), places])
}

/// The most images whose columns are in memory at once.
const MOST_IMAGES_AT_ONCE: i64 = 32;

/// What the passes of a deformable convolution allocate beside their results.
#[derive(Debug)]
struct Deformed {
    /// Elements of the columns of the images that are computed at once.
    columns: i64,
    /// Whether these are several, so that gradients are copied to be next to one another.
    are_several: bool,
}

fn deformed(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (source, weight, offset, mask, bias) =
        (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?, call.tensor(3)?, call.tensor(4)?);
    let shape = call.result(0)?.shape;
    let &[batch, _, height, width] = shape.as_slice() else { return Err(Unmodelled) };
    let at_once = (1..=MOST_IMAGES_AT_ONCE.min(batch)).rev().find(|images| batch % images == 0).unwrap_or(1);
    let window: i64 = weight.shape()[2..].iter().product();
    let columns = source.shape()[1] * window * at_once * height * width;
    let sum = context.empty_contiguous(source.dtype(), &shape);
    let parts = context.empty_contiguous(source.dtype(), &shape);
    let read = context.empty_contiguous(source.dtype(), &[columns]);
    context.use_blas();
    let result = context.empty_contiguous(source.dtype(), &shape);
    drop((read, parts, sum));
    let inputs = [Some(source), Some(weight), Some(offset), Some(mask), Some(bias)];
    let saved = |_: &dyn Fn(usize) -> bool| inputs.iter().map(|input| input.cloned()).collect();
    let edge = context.record(&inputs, 1, saved, Deformed { columns, are_several: at_once > 1 });
    Ok(smallvec![result.with_edge(edge)])
}

impl Backward for Deformed {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        match gradients[0].clone() {
            Some(gradient) => deformed_backward(self, context, node, gradient),
            None => smallvec![None; node.inputs.len()],
        }
    }

    fn returns_unwanted(&self) -> bool {
        true
    }
}

/// All gradients are found, whether they are wanted or not.
fn deformed_backward(kept: &Deformed, context: &mut Context, node: &Node, gradient: Tensor) -> Gradients {
    let dtype = gradient.dtype();
    let like = |context: &Context, input: usize| context.empty_contiguous(dtype, node.saved(input).shape());
    let columns = |context: &Context| context.empty_contiguous(dtype, &[kept.columns]);
    let copy = |context: &Context| kept.are_several.then(|| context.empty_contiguous(dtype, gradient.shape()));
    let of_source = like(context, 0);
    let of_offset = like(context, 2);
    let of_mask = like(context, 3);
    let read = columns(context);
    let incoming = copy(context);
    context.use_blas();
    drop(incoming);
    drop(read);
    let of_weight = like(context, 1);
    let incoming = copy(context);
    drop(columns(context));
    drop(incoming);
    let ones = like(context, 4);
    let sums = context.sum(&gradient, &[0, 2, 3], false, dtype);
    let of_bias = like(context, 4);
    drop(sums);
    drop(ones);
    smallvec![Some(of_source), Some(of_weight), Some(of_offset), Some(of_mask), Some(of_bias)]
}
