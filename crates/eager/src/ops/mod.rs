//! Memory rules, one file a family of operators.
//!
//! A rule mirrors what the operator does on CUDA: it allocates what the kernels allocate, in their order, and lets go of
//! it where C++ does. There is no default: an operator without a rule is named, and the answer becomes a range.

mod activation;
mod attention;
mod batch_norm;
mod call;
mod convolution;
mod copy;
mod dropout;
mod embedding;
mod factory;
mod group_norm;
mod indexing;
mod joining;
mod linear;
mod loss;
mod matmul;
mod normalization;
mod padding;
mod pointwise;
mod pooling;
mod recurrent;
mod reduction;
mod resize;
mod slices;
mod softmax;
mod view;
mod weight_norm;

use crate::autograd::Context;
pub(crate) use call::layout_of;
pub use call::{Call, Outcome, Unmodelled};
pub use recurrent::is_flattened;
pub(crate) use slices::{copied_slices, seen_again};

/// A rule: what the operator does, and its results.
pub type Rule = fn(&mut Context, &Call<'_>) -> Outcome;

/// The rule for an operator.
pub fn rule(name: &str) -> Option<Rule> {
    let families = [
        view::rule,
        linear::rule,
        pointwise::rule,
        activation::rule,
        normalization::rule,
        softmax::rule,
        dropout::rule,
        embedding::rule,
        attention::rule,
        loss::rule,
        reduction::rule,
        copy::rule,
        matmul::rule,
        joining::rule,
        indexing::rule,
        factory::rule,
        padding::rule,
        convolution::rule,
        batch_norm::rule,
        group_norm::rule,
        pooling::rule,
        resize::rule,
        recurrent::rule,
        weight_norm::rule,
    ];
    families.into_iter().find_map(|family| family(name))
}
