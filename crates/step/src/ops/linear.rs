//! Matrix products through cuBLAS.

use smallvec::smallvec;

use super::view::{reshaped, transposed, view_strides};
use super::{Call, Context, Outcome, Rule, Unmodelled};
use crate::tape::{Backward, Gradients, Node};
use crate::tensor::{Dims, Layout, Tensor};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "aten.linear.default" => linear,
        "aten.addmm.default" => addmm_call,
        "aten.mm.default" => mm_call,
        _ => return None,
    })
}

/// `bias + first @ second`: what is saved is `first` where `second` wants a gradient, and the other way round.
#[derive(Debug)]
struct Addmm;

impl Backward for Addmm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
        let (first, second) = product_gradients(context, node, &gradient, 1);
        // The bias's gradient is the incoming one itself; the engine sums it to the bias's shape.
        smallvec![node.wants(0).then_some(gradient), first, second]
    }
}

/// `first @ second`.
#[derive(Debug)]
struct Mm;

impl Backward for Mm {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
        let (first, second) = product_gradients(context, node, &gradient, 0);
        smallvec![first, second]
    }
}

/// The gradients of a product's factors, which are inputs `place` and `place + 1`; saved are the first and second
/// factor.
fn product_gradients(
    context: &mut Context,
    node: &Node,
    gradient: &Tensor,
    place: usize,
) -> (Option<Tensor>, Option<Tensor>) {
    let first = node.wants(place).then(|| {
        let shape = node.inputs[place].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
        factor_gradient(context, gradient.dtype(), &shape, false)
    });
    let second = node.wants(place + 1).then(|| {
        let shape = node.inputs[place + 1].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
        // A second factor that lies column by column, as `weight.t()` does, gets a gradient that lies so too.
        factor_gradient(context, gradient.dtype(), &shape, true)
    });
    (first, second)
}

fn factor_gradient(
    context: &mut Context,
    dtype: vramfit_graph::dtype::Dtype,
    shape: &[i64],
    by_column: bool,
) -> Tensor {
    let result = if by_column {
        let turned = context.empty_contiguous(dtype, &[shape[1], shape[0]]);
        turned.view(Layout { dtype, shape: shape.into(), strides: Dims::from([1, shape[0]]) })
    } else {
        context.empty_contiguous(dtype, shape)
    };
    context.use_blas();
    result
}

/// Whether cuBLASLt adds the bias in the product's epilogue.
fn adds_bias_in_epilogue(bias: &Tensor, second: &Tensor) -> bool {
    let [inner, outer] = second.shape() else { return false };
    bias.shape() == [*outer] && bias.layout().is_contiguous() && *inner > 1 && *outer > 1
}

fn addmm(context: &mut Context, bias: &Tensor, first: &Tensor, second: &Tensor) -> Outcome {
    let (&[rows, _], &[_, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[rows, columns]);
    if adds_bias_in_epilogue(bias, second) {
        context.use_blas_lt();
    } else {
        context.use_blas();
    }
    let edge = context.record(
        &[Some(bias), Some(first), Some(second)],
        1,
        |wants| smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())],
        Addmm,
    );
    Ok(smallvec![result.with_edge(edge)])
}

fn mm(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    let (&[rows, _], &[_, columns]) = (first.shape(), second.shape()) else { return Err(Unmodelled) };
    let result = context.empty_contiguous(first.dtype(), &[rows, columns]);
    context.use_blas();
    let edge = context.record(
        &[Some(first), Some(second)],
        1,
        |wants| smallvec![wants(1).then(|| first.clone()), wants(0).then(|| second.clone())],
        Mm,
    );
    Ok(smallvec![result.with_edge(edge)])
}

fn addmm_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    addmm(context, call.tensor(0)?, call.tensor(1)?, call.tensor(2)?)
}

fn mm_call(context: &mut Context, call: &Call<'_>) -> Outcome {
    mm(context, call.tensor(0)?, call.tensor(1)?)
}

/// A view of another shape, in the graph.
fn viewed(context: &mut Context, source: &Tensor, shape: &[i64]) -> Outcome {
    #[derive(Debug)]
    struct Viewed(Dims);
    impl Backward for Viewed {
        fn apply(&self, context: &mut Context, _node: &Node, gradients: &mut Gradients) -> Gradients {
            smallvec![gradients[0].take().map(|gradient| reshaped(context, &gradient, &self.0))]
        }
    }
    let strides = view_strides(source.layout(), shape).ok_or(Unmodelled)?;
    let result = source.view(Layout { dtype: source.dtype(), shape: shape.into(), strides });
    let edge = context.record(&[Some(source)], 1, |_| smallvec![], Viewed(source.shape().into()));
    Ok(smallvec![result.with_edge(edge)])
}

fn only(outcome: Outcome) -> Result<Tensor, Unmodelled> {
    outcome?.pop().ok_or(Unmodelled)
}

fn linear(context: &mut Context, call: &Call<'_>) -> Outcome {
    let (input, weight) = (call.tensor(0)?, call.tensor(1)?);
    let bias = call.optional_tensor(2);
    let Some((&inner, outer)) = input.shape().split_last() else { return Err(Unmodelled) };
    let columns = *weight.shape().first().ok_or(Unmodelled)?;
    match (bias, outer.len()) {
        (Some(bias), 1) => {
            let turned = only(transposed(context, weight))?;
            addmm(context, bias, input, &turned)
        }
        (None, 1) => {
            let turned = only(transposed(context, weight))?;
            mm(context, input, &turned)
        }
        (bias, _) => {
            let turned = bias.is_none().then(|| only(transposed(context, weight))).transpose()?;
            let rows = outer.iter().product();
            let flat = only(viewed(context, input, &[rows, inner]))?;
            let turned = match turned {
                Some(turned) => turned,
                None => only(transposed(context, weight))?,
            };
            let product = match bias {
                Some(bias) => only(addmm(context, bias, &flat, &turned))?,
                None => only(mm(context, &flat, &turned))?,
            };
            let mut shape: Dims = outer.into();
            shape.push(columns);
            viewed(context, &product, &shape)
        }
    }
}
