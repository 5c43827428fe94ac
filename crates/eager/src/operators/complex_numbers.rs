//! Complex numbers: made of real ones, and taken apart.

use smallvec::smallvec;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::call::{Call, Outcome, Unmodelled};
use super::facts::*;
use super::function::Function;
use super::pointwise::elementwise;
use crate::autograd::{Context, Tensor};

/// What the family's operators have in common.
const FAMILY: Facts = Facts::of_family(
    Library::Own,
    Launch::LocalMemory,
    Time::ASSUMED,
    Keeps::Inputs,
    Autocast::Unchanged,
    Samples::Apart,
);

pub(super) const OPERATORS: &[Operator] = &[
    Operator::new(
        &["aten.real.default", "aten.imag.default"],
        Facts { memory: Modelled(part), keeps: Keeps::Nothing, ..FAMILY },
    ),
    Operator::new(&["aten.complex.default"], Facts { memory: Modelled(complex), ..FAMILY }),
    Operator::new(&["aten.polar.default"], Facts { memory: Modelled(polar), keeps: Keeps::Results, ..FAMILY }),
];

pub(super) fn complex_of(dtype: Dtype) -> Result<Dtype, Unmodelled> {
    match dtype {
        Dtype::Float32 | Dtype::Complex64 => Ok(Dtype::Complex64),
        Dtype::Float64 | Dtype::Complex128 => Ok(Dtype::Complex128),
        _ => Err(Unmodelled),
    }
}

/// The layout of the real parts of complex numbers.
pub(super) fn part_layout(source: &Tensor) -> Layout {
    let Layout { dtype, shape, strides } = source.layout();
    Layout {
        dtype: dtype.of_real_part(),
        shape: shape.clone(),
        strides: strides.iter().map(|stride| 2 * stride).collect(),
    }
}

/// `real` and `imag`: every second number. The gradient is put into zeros.
fn part(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    if !source.dtype().is_complex() {
        return Ok(smallvec![source.clone()]);
    }
    let result = source.view(part_layout(source));
    let backward = Function(source.dtype(), |&complex, context, _, gradient| {
        let zeros = context.empty_contiguous(complex, gradient.shape());
        smallvec![Some(zeros.view(zeros.shared_layout()))]
    });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `complex(real, imag)`: the gradients are parts of the gradient.
fn complex(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (real, imaginary) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[real, imaginary], complex_of(real.dtype())?);
    let backward = Function((), |&(), _, node, gradient| {
        let part = |input| node.wants(input).then(|| gradient.view(part_layout(&gradient)));
        smallvec![part(0), part(1)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(imaginary.clone()), Some(real.clone())];
    let edge = context.record(&[Some(real), Some(imaginary)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}

/// `polar(abs, angle)`. A conjugate that is multiplied is copied first.
fn polar(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (length, angle) = (call.tensor(0)?, call.tensor(1)?);
    let result = elementwise(context, &[length, angle], complex_of(length.dtype())?);
    let backward = Function((), |&(), context, node, gradient| {
        let like = |context: &Context| context.empty(gradient.like(gradient.dtype()));
        let factor = |_input: usize| {
            let other = like(context);
            let conjugate = like(context);
            let product = like(context);
            drop(conjugate);
            drop(other);
            product
        };
        let found = [factor(0), factor(1)];
        let part = |input: usize| node.wants(input).then(|| found[input].view(part_layout(&found[input])));
        smallvec![part(0), part(1)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(result.detach())];
    let edge = context.record(&[Some(length), Some(angle)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}
