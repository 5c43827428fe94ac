//! Padding with values from the edges: reflection, replication, circular.

use smallvec::smallvec;
use vramfit_graph::dims::Dims;

use super::call::{Call, Outcome};
use super::facts::*;
use crate::autograd::{Backward, Context, Gradients, Node};

/// What the family's operators have in common.
const FAMILY: Facts =
    Facts::of_family(Library::Own, Launch::Kernel, Time::ASSUMED, Keeps::Nothing, Autocast::Unchanged, Samples::Apart);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &[
            "aten.reflection_pad1d.default",
            "aten.reflection_pad3d.default",
            "aten.replication_pad1d.default",
            "aten.replication_pad3d.default",
        ],
        Facts { memory: Modelled(edges), ..FAMILY },
    ),
    Operator::new(
        &["aten.reflection_pad2d.default", "aten.replication_pad2d.default"],
        Facts { memory: Modelled(edges), time: Time::moves("pad", Extent::Input), ..FAMILY },
    ),
];

/// The gradient is added up in a new tensor of the input's shape. The input is saved.
#[derive(Debug)]
struct Padded(Dims);

impl Backward for Padded {
    fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
        smallvec![gradients[0].as_ref().map(|gradient| context.empty_contiguous(gradient.dtype(), &self.0))]
    }
}

fn edges(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty_contiguous(source.dtype(), &call.result(0)?.shape);
    drop(context.contiguous(source));
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, Padded(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}
