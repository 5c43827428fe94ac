//! Products with vectors, and sums of products: `mv`, `dot`, `addmv`, `addr`, `addbmm`.

use std::rc::Rc;

use smallvec::smallvec;
use vramfit_graph::layout::Layout;

use super::matrix::Scales;
use crate::autograd::{Backward, Context, Gradients, Node, Tensor};
use crate::operators::call::{Call, Outcome, Unmodelled};

/// A matrix times a vector: the matrix's gradient is an outer product.
pub(super) fn mv(context: &mut Context, matrix: &Tensor, vector: &Tensor) -> Outcome {
    #[derive(Debug)]
    struct Mv(Rc<Layout>);
    impl Backward for Mv {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let matrix = node.wants(0).then(|| context.empty_contiguous(gradient.dtype(), &self.0.shape));
            let vector = node.wants(1).then(|| {
                let result = context.empty_contiguous(gradient.dtype(), &self.0.shape[1..]);
                context.use_blas();
                result
            });
            smallvec![matrix, vector]
        }
    }
    let &[rows, _] = matrix.shape() else { return Err(Unmodelled) };
    let result = context.empty_contiguous(matrix.dtype(), &[rows]);
    context.use_blas();
    let edge = context.record(
        &[Some(matrix), Some(vector)],
        1,
        |wants| smallvec![wants(1).then(|| matrix.clone()), wants(0).then(|| vector.clone())],
        Mv(matrix.shared_layout()),
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// The sum of products of two vectors.
pub(super) fn dot(context: &mut Context, first: &Tensor, second: &Tensor) -> Outcome {
    #[derive(Debug)]
    struct Dot;
    impl Backward for Dot {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None] };
            let factor = |input: usize| {
                let shape = node.inputs[input].as_ref().map(|input| input.shape.clone()).unwrap_or_default();
                node.wants(input).then(|| context.empty_contiguous(gradient.dtype(), &shape))
            };
            let one = factor(0);
            smallvec![one, factor(1)]
        }
    }
    let result = context.empty_contiguous(first.dtype(), &[]);
    context.use_blas();
    let edge = context.record(
        &[Some(first), Some(second)],
        1,
        |wants| smallvec![wants(1).then(|| first.clone()), wants(0).then(|| second.clone())],
        Dot,
    );
    Ok(smallvec![result.with_edge(edge)])
}

/// A product added to `self`: `addmv`, `addr`, `addbmm`. Each factor gets a gradient of its own.
pub(super) fn sum_of_products(context: &mut Context, call: &Call<'_>) -> Outcome {
    #[derive(Debug)]
    struct SumOfProducts;
    impl Backward for SumOfProducts {
        fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
            let Some(gradient) = gradients[0].clone() else { return smallvec![None, None, None] };
            let mut factor = |input: usize| {
                let shape = node.inputs[input].as_ref().filter(|_| node.wants(input))?.shape.clone();
                let result = context.empty_contiguous(gradient.dtype(), &shape);
                context.use_blas();
                Some(result)
            };
            let first = factor(1);
            let second = factor(2);
            smallvec![node.wants(0).then_some(gradient), first, second]
        }
    }
    let (bias, first, second) = (call.tensor(0)?, call.tensor(1)?, call.tensor(2)?);
    if Scales::of(call) != Scales::NONE {
        return Err(Unmodelled);
    }
    let result = context.empty_contiguous(first.dtype(), &call.result(0)?.shape);
    context.use_blas();
    let saved =
        |wants: &dyn Fn(usize) -> bool| smallvec![wants(2).then(|| first.clone()), wants(1).then(|| second.clone())];
    let edge = context.record(&[Some(bias), Some(first), Some(second)], 1, saved, SumOfProducts);
    Ok(smallvec![result.with_edge(edge)])
}
