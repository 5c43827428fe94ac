//! Sequences of different lengths: packed into rows without padding, and padded again (`PackedSequence.cpp`).
//!
//! A capture gives the layout of a packed batch instead of the tensor on the host: time steps and sequences of each run of
//! steps that as many sequences reach. Without it the copies of the runs do not show.

use smallvec::{SmallVec, smallvec};
use vramfit_graph::bind::Value;
use vramfit_graph::dims::Dims;
use vramfit_graph::layout::Layout;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled, only};
use crate::operators::factory::copied_into;
use crate::operators::slices::copied_slices;
use crate::operators::view::{part_of, permuted_in_graph, reshaped_by_view};

/// A run of time steps that as many sequences reach.
struct Run {
    steps: i64,
    sequences: i64,
}

fn runs(call: &Call<'_>) -> Result<Vec<Run>, Unmodelled> {
    if !matches!(call.arguments.get(1), Some(Value::List(_))) {
        return Err(Unmodelled);
    }
    let numbers = call.ints(1)?;
    Ok(numbers.chunks_exact(2).map(|pair| Run { steps: pair[0], sequences: pair[1] }).collect())
}

/// The first two dimensions swapped.
fn swapped(layout: &Layout) -> Layout {
    let mut layout = layout.clone();
    layout.shape.swap(0, 1);
    layout.strides.swap(0, 1);
    layout
}

/// The gradient is copied into zeros of the padded input, time first.
#[derive(Debug)]
struct Packed {
    padded: Dims,
    is_batch_first: bool,
}

impl Backward for Packed {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| {
            let zeros = context.empty_contiguous(gradient.dtype(), &self.padded);
            if self.is_batch_first { zeros.view(swapped(zeros.layout())) } else { zeros }
        })]
    }
}

/// Each run is copied where it is not contiguous, then all are joined.
pub(super) fn pack(context: &mut Context, call: &Call<'_>) -> Outcome {
    let input = call.tensor(0)?;
    let is_batch_first = call.bool(2)?;
    let by_time = if is_batch_first { swapped(input.layout()) } else { input.layout().clone() };
    let mut parts: SmallVec<[Tensor; 8]> = SmallVec::new();
    for run in runs(call)? {
        let mut part = by_time.clone();
        part.shape[0] = run.steps;
        part.shape[1] = run.sequences;
        parts.push(context.contiguous(&input.unsafe_view(part)));
    }
    let result = context.empty(call.result(0)?);
    for part in parts {
        drop(part);
    }
    let backward = Packed { padded: by_time.shape, is_batch_first };
    let edge = context.record(&[Some(input)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge), Tensor::on_host(call.result(1)?)])
}

/// Each run is copied into its part of the padded result.
pub(super) fn pad(context: &mut Context, call: &Call<'_>) -> Outcome {
    let data = call.tensor(0)?;
    let is_batch_first = call.bool(2)?;
    let mut shape = call.result(0)?.shape;
    if is_batch_first {
        shape.swap(0, 1);
    }
    let mut padded = context.empty_contiguous(data.dtype(), &shape);
    for Run { steps, sequences } in runs(call)? {
        let mut rows = data.layout().clone();
        rows.shape[0] = steps * sequences;
        let rows = only(part_of(context, data, rows))?;
        let mut part = padded.layout().clone();
        part.shape[0] = steps;
        part.shape[1] = sequences;
        let rows = only(reshaped_by_view(context, &rows, &part.shape))?;
        let part = padded.view(part).with_edge(padded.edge().cloned());
        if let Some(written) = copied_into(context, &part, &rows) {
            let edge = copied_slices(context, &padded, part.layout(), written);
            padded = padded.detach().with_edge(Some(edge));
        }
    }
    if is_batch_first {
        let order: Dims = [1, 0].into_iter().chain(2..shape.len() as i64).collect();
        padded = only(permuted_in_graph(context, &padded, &order))?;
    }
    Ok(smallvec![padded, Tensor::on_host(call.result(1)?)])
}
