//! What the script still holds of the last micro-batch.

use vramfit_graph::bind::Bound;

use crate::memory::Category;
use crate::tensor::Tensor;

/// The names `outputs` and `loss`.
#[derive(Default)]
pub(super) struct Held {
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
}

impl Held {
    /// `outputs = model(…)`: what the name held before goes.
    pub(super) fn bind_outputs(&mut self, bound: &Bound<'_>, tensors: &[Option<Tensor>]) {
        let outputs: Vec<Tensor> =
            bound.variant.outputs.iter().filter_map(|id| tensors[id.0 as usize].clone()).collect();
        for storage in outputs.iter().filter_map(Tensor::storage) {
            if storage.category() == Category::Activations {
                storage.become_category(Category::Outputs);
            }
        }
        self.outputs = outputs;
    }

    /// `loss = …`: what the name held before goes.
    pub(super) fn bind_loss(&mut self, loss: Option<Tensor>) {
        if let Some(storage) = loss.as_ref().and_then(Tensor::storage) {
            storage.become_category(Category::Outputs);
        }
        self.loss = loss;
    }

    /// The scalar that backward starts from.
    pub(super) fn loss(&self) -> Option<&Tensor> {
        self.loss.as_ref()
    }
}
