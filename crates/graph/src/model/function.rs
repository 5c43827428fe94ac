//! The recorded backwards of custom autograd functions.

use super::step::Step;
use super::tensor::TensorId;

/// What the backward of one custom `autograd.Function` calls.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedBackward {
    /// The index of the [`Step::EndFunction`] of its forward.
    pub end: usize,
    /// The tensor arguments of the function, without those inside lists. `None` where these are all that the
    /// [`Step::Function`] has.
    pub arguments: Option<Vec<TensorId>>,
    /// Tensors that the function's context holds as attributes: these live as long as the graph.
    pub kept: Vec<TensorId>,
    /// The incoming gradient of each result; `None` for a result that has none.
    pub gradients: Vec<Option<TensorId>>,
    /// The returned gradient of each argument.
    pub results: Vec<Option<TensorId>>,
    /// Its steps. They use the tensors of the variant.
    pub steps: Vec<Step>,
}

impl RecordedBackward {
    /// Whether its steps are all that it does. One that turns gradients on runs a backward pass of its own, which is not
    /// among them.
    pub fn is_complete(&self) -> bool {
        !self.steps.iter().any(|step| matches!(step, Step::Grad(true)))
    }

    /// Visits every tensor that it names.
    pub fn each_tensor_mut(&mut self, visit: &mut impl FnMut(&mut TensorId)) {
        self.arguments.iter_mut().flatten().chain(&mut self.kept).for_each(&mut *visit);
        self.gradients.iter_mut().chain(&mut self.results).flatten().for_each(&mut *visit);
        self.steps.iter_mut().for_each(|step| step.each_tensor_mut(visit));
    }
}
