//! Group norm.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::kernels::accumulator::accumulator_dtype;

/// What the family's operators have in common.
const FAMILY: Facts = Facts {
    overwrite: Overwrite::Allowed,
    ..Facts::of_family(
        Library::Own,
        Launch::LocalMemory,
        Time::moves("group_norm", Extent::Larger),
        Keeps::Results,
        Autocast::Single,
        Samples::First,
    )
};

pub(super) const OPERATORS: &[Operator] =
    &[Operator::new(&["aten.group_norm.default"], Facts { memory: Modelled(group_norm), ..FAMILY })];

/// Saved: the input, then mean and deviation of each group. Inputs are the input, scale and shift.
#[derive(Debug)]
struct GroupNorm {
    groups: i64,
    scale: Option<Rc<Layout>>,
    shift: Option<Rc<Layout>>,
}

/// Two numbers for each image and channel, or group.
fn pair(context: &Context, dtype: Dtype, shape: [i64; 2]) -> (Tensor, Tensor) {
    (context.empty_contiguous(dtype, &shape), context.empty_contiguous(dtype, &shape))
}

impl Backward for GroupNorm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let input = node.saved(0);
        let (batch, channels) = (input.shape()[0], input.shape()[1]);
        let incoming = context.contiguous(&gradient);
        let result = node.wants(0).then(|| context.empty_contiguous(input.dtype(), input.shape()));
        let like = |layout: &Option<Rc<Layout>>, index: usize| {
            let layout = layout.as_ref().filter(|_| node.wants(index))?;
            Some(context.empty_contiguous(layout.dtype, &layout.shape))
        };
        let scale = like(&self.scale, 1);
        let shift = like(&self.shift, 2);
        let dtype = accumulator_dtype(input.dtype());
        let sums = pair(context, dtype, [batch, channels]);
        if node.wants(0) {
            let (second, third) = pair(context, dtype, [batch, self.groups]);
            let first = self.scale.is_some().then(|| context.empty_contiguous(dtype, &[batch, channels]));
            drop(third);
            drop(second);
            drop(first);
        }
        drop(sums.1);
        drop(sums.0);
        drop(incoming);
        smallvec![result, scale, shift]
    }
}

fn group_norm(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (scale, shift) = (call.optional_tensor(2), call.optional_tensor(3));
    let source = super::copy::contiguous_of(context, call.tensor(0)?);
    let &[batch, channels, ..] = source.shape() else { return Err(Unmodelled) };
    let is_mixed = [scale, shift].into_iter().flatten().any(|tensor| tensor.dtype() != source.dtype());
    if is_mixed || source.shape().len() < 3 {
        return Err(Unmodelled);
    }
    let groups = call.int(1)?;
    let result = context.empty_contiguous(source.dtype(), source.shape());
    let (mean, deviation) = pair(context, source.dtype(), [batch, groups]);
    if scale.is_some() {
        let (factor, offset) = pair(context, accumulator_dtype(source.dtype()), [batch, channels]);
        drop(offset);
        drop(factor);
    }
    let backward =
        GroupNorm { groups, scale: scale.map(Tensor::shared_layout), shift: shift.map(Tensor::shared_layout) };
    let edge = context.record(
        &[Some(&source), scale, shift],
        1,
        |_| smallvec![Some(source.clone()), Some(mean.detach()), Some(deviation.detach()), scale.cloned()],
        backward,
    );
    drop(mean);
    drop(deviation);
    Ok(smallvec![result.with_edge(edge)])
}
