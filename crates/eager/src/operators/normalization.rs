//! Layer norm and RMS norm, fused.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use crate::autograd::{Backward, Context, Edge, Gradients, Node, Tensor};
use crate::kernels::accumulator::accumulator_dtype;
use crate::kernels::layer_norm::partial_rows;

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Results,
    Autocast::Single,
    Samples::Trailing(1),
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.layer_norm.default"],
        Facts {
            memory: Modelled(layer_norm),
            time: Time::moves("layer_norm", Extent::Larger),
            overwrite: Overwrite::Allowed,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten.native_layer_norm.default"],
        Facts { memory: Modelled(native_layer_norm), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(
        &["aten.rms_norm.default"],
        Facts {
            memory: Modelled(rms_norm),
            time: Time::moves("rms_norm", Extent::Larger),
            autocast: Autocast::Unchanged,
            ..FAMILY
        },
    ),
    Operator::new(
        &["aten._fused_rms_norm.default"],
        Facts { memory: Modelled(fused_rms_norm), keeps: Keeps::Nothing, autocast: Autocast::Unchanged, ..FAMILY },
    ),
];

/// How many rows are normalized, and how long each is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub count: i64,
    pub width: i64,
}

impl Rows {
    pub fn of(input: &Tensor, normalized: usize) -> Result<Rows, Unmodelled> {
        let outer = input.shape().len().checked_sub(normalized).ok_or(Unmodelled)?;
        let (count, width) = input.shape().split_at(outer);
        Ok(Rows { count: count.iter().product(), width: width.iter().product() })
    }
}

/// Saved: the shift, the input, the scale, then a statistic or two of each row. Inputs are the input, scale and shift.
#[derive(Debug)]
struct Normalized {
    rows: Rows,
    scale: Option<Rc<Layout>>,
    shift: Option<Rc<Layout>>,
}

impl Backward for Normalized {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let wanted = [0, 1, 2].map(|index| node.wants(index));
        let weights = [self.scale.as_ref(), self.shift.as_ref()];
        gradients_of_rows(context, self.rows, (&gradient, &node.saved(1)), wanted, weights)
    }
}

/// The gradients of the input, the scale and the shift, from that of the result.
pub(super) fn gradients_of_rows(
    context: &mut Context,
    rows: Rows,
    (gradient, source): (&Tensor, &Tensor),
    wanted: [bool; 3],
    weights: [Option<&Rc<Layout>>; 2],
) -> Gradients {
    let input = context.contiguous(source);
    let result = wanted[0].then(|| context.empty(input.shared_layout()));
    let like = |context: &mut Context, index: usize| match weights[index] {
        Some(layout) if wanted[1 + index] => Some(context.empty_contiguous(layout.dtype, &layout.shape)),
        _ => None,
    };
    let mut scale = like(context, 0);
    let mut shift = like(context, 1);
    if rows.count > 0 {
        let incoming = context.contiguous(gradient);
        sum_rows(context, rows, &mut scale, &mut shift);
        drop(incoming);
    }
    drop(input);
    smallvec![result, scale, shift]
}

/// Gradients of scale and shift, which take two passes where rows are very many.
fn sum_rows(context: &mut Context, rows: Rows, scale: &mut Option<Tensor>, shift: &mut Option<Tensor>) {
    if scale.is_none() && shift.is_none() {
        return;
    }
    let Some(partial) = partial_rows(rows.count, rows.width, context.gpu()) else { return };
    let parts = |context: &mut Context, sum: &Option<Tensor>| {
        sum.as_ref().map(|sum| context.empty_contiguous(sum.dtype(), &[partial, rows.width]))
    };
    let scale_parts = parts(context, scale);
    let shift_parts = parts(context, shift);
    let add = |context: &mut Context, parts: &Option<Tensor>, sum: &mut Option<Tensor>| {
        if let Some(parts) = parts {
            *sum = Some(context.sum(parts, &[0], false, parts.dtype()));
        }
    };
    add(context, &scale_parts, scale);
    add(context, &shift_parts, shift);
    drop(shift_parts);
    drop(scale_parts);
}

/// The result, and the statistics of each row.
struct Fused {
    result: Tensor,
    statistics: Vec<Tensor>,
    edge: Option<Edge>,
}

/// Normalizes; `statistics` is 2 for mean and deviation, 1 for the deviation alone.
fn fused(
    context: &mut Context,
    input: &Tensor,
    normalized: usize,
    scale: Option<&Tensor>,
    shift: Option<&Tensor>,
    statistics: usize,
) -> Result<Fused, Unmodelled> {
    let is_mixed = |other: Option<&Tensor>| other.is_some_and(|other| other.dtype() != input.dtype());
    if is_mixed(scale) || is_mixed(shift) {
        return Err(Unmodelled);
    }
    let rows = Rows::of(input, normalized)?;
    let source = context.contiguous(input);
    let contiguous_scale = scale.map(|scale| context.contiguous(scale));
    let contiguous_shift = shift.map(|shift| context.contiguous(shift));
    let result = context.empty_contiguous(input.dtype(), input.shape());
    let dtype = accumulator_dtype(input.dtype());
    let outer = input.shape().len() - normalized;
    let shape: vramfit_graph::dims::Dims =
        input.shape().iter().enumerate().map(|(dim, &size)| if dim < outer { size } else { 1 }).collect();
    let statistics: Vec<Tensor> = (0..statistics).map(|_| context.empty_contiguous(dtype, &shape)).collect();
    drop(contiguous_shift);
    drop(contiguous_scale);
    drop(source);
    let backward =
        Normalized { rows, scale: scale.map(Tensor::shared_layout), shift: shift.map(Tensor::shared_layout) };
    let inputs = [Some(input), scale, shift];
    let edge = context.record(
        &inputs,
        1 + statistics.len(),
        |_| {
            let mut saved = smallvec![shift.cloned(), Some(input.clone()), scale.cloned()];
            saved.extend(statistics.iter().map(|statistic| Some(statistic.detach())));
            saved
        },
        backward,
    );
    Ok(Fused { result, statistics, edge })
}

impl Fused {
    fn result(self) -> Outcome {
        // The statistics go in their order, unless the graph holds them.
        for statistic in self.statistics {
            drop(statistic);
        }
        Ok(smallvec![self.result.with_edge(self.edge)])
    }

    fn all(self) -> Outcome {
        let mut results = smallvec![self.result.with_edge(self.edge)];
        results.extend(self.statistics);
        Ok(results)
    }
}

fn layer_norm_of(context: &mut Context, call: &Call<'_>) -> Result<Fused, Unmodelled> {
    let normalized = call.ints(1)?.len();
    fused(context, call.tensor(0)?, normalized, call.optional_tensor(2), call.optional_tensor(3), 2)
}

fn layer_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    layer_norm_of(context, call)?.result()
}

/// Layer norm over the last dimension.
pub(super) fn norm_of_rows(context: &mut Context, input: &Tensor, scale: &Tensor, shift: &Tensor) -> Outcome {
    fused(context, input, 1, Some(scale), Some(shift), 2)?.result()
}

fn native_layer_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    layer_norm_of(context, call)?.all()
}

fn rms_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let normalized = call.ints(1)?.len();
    fused(context, call.tensor(0)?, normalized, call.optional_tensor(2), None, 1)?.result()
}

fn fused_rms_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let normalized = call.ints(1)?.len();
    fused(context, call.tensor(0)?, normalized, call.optional_tensor(2), None, 1)?.all()
}
