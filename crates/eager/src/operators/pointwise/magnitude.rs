//! `abs` of complex numbers.

use smallvec::smallvec;

use super::formula::elementwise;
use crate::autograd::Context;
use crate::operators::call::{Call, Outcome};
use crate::operators::function::Function;

/// `abs` of complex numbers, which are computed as complex ones first.
pub fn magnitude(context: &mut Context, call: &Call<'_>) -> Outcome {
    let source = call.tensor(0)?;
    let result = context.empty(source.like(source.dtype().of_real_part()));
    drop(context.empty(source.like(source.dtype())));
    let backward = Function((), |&(), context, node, gradient| {
        let source = node.saved(0);
        let sign = context.empty(source.like(source.dtype()));
        let found = elementwise(context, &[&gradient, &sign], source.dtype());
        drop(sign);
        smallvec![Some(found)]
    });
    let saved = |_: &dyn Fn(usize) -> bool| smallvec![Some(source.clone())];
    let edge = context.record(&[Some(source)], 1, saved, backward);
    Ok(smallvec![result.with_edge(edge)])
}
