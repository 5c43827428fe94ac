//! Backward functions that need no type of their own.

use std::fmt;

use smallvec::smallvec;

use crate::autograd::{Backward, Context, Gradients, Node, Tensor};

/// A backward function with what the forward pass left for it. It is called with the first output's gradient where that is
/// defined.
pub(super) struct Function<Kept>(pub Kept, pub fn(&Kept, &mut Context, &Node, Tensor) -> Gradients);

impl<Kept: fmt::Debug> fmt::Debug for Function<Kept> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Function").field(&self.0).finish()
    }
}

impl<Kept: fmt::Debug> Backward for Function<Kept> {
    fn apply(&self, context: &mut Context, node: &Node, gradients: &mut Gradients) -> Gradients {
        match gradients[0].clone() {
            Some(gradient) => (self.1)(&self.0, context, node, gradient),
            None => smallvec![None; node.inputs.len()],
        }
    }
}
