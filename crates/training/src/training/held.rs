//! What the script still holds of the last micro-batch.

use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;

use vramfit_eager::autograd::Tensor;
use vramfit_eager::memory::Category;

/// A name that the script binds anew in each micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Outputs,
    Loss,
    /// What the model itself has kept.
    Kept,
}

/// The names `outputs` and `loss`.
#[derive(Default)]
pub(super) struct Held {
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
    /// What the model itself has kept, such as a cache.
    kept: Vec<Tensor>,
}

impl Held {
    /// `outputs = model(…)`: what the name held before goes.
    pub(super) fn bind_outputs(&mut self, bound: &Bound<'_>, tensors: &[Option<Tensor>]) {
        let outputs: Vec<Tensor> =
            bound.variant.released.iter().filter_map(|id| tensors[id.0 as usize].clone()).collect();
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

    /// What the model has kept of this pass; what it had kept of the last one goes.
    pub(super) fn keep(&mut self, bound: &Bound<'_>, tensors: &[Option<Tensor>]) {
        let (variant, given) = (bound.variant, bound.model.given_count());
        let is_kept = |id: &&TensorId| {
            id.0 as usize >= given
                && variant.loss != Some(**id)
                && !variant.outputs.contains(id)
                && !variant.constants.contains(id)
        };
        self.kept = variant.held.iter().filter(is_kept).filter_map(|id| tensors[id.0 as usize].clone()).collect();
    }

    /// What a name holds goes.
    pub(super) fn let_go(&mut self, name: Name) {
        match name {
            Name::Outputs => self.outputs = Vec::new(),
            Name::Loss => self.loss = None,
            Name::Kept => self.kept = Vec::new(),
        }
    }

    /// Everything it holds.
    pub(super) fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.outputs.iter().chain(&self.loss).chain(&self.kept)
    }

    /// How much it holds under each name.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.outputs.len(), usize::from(self.loss.is_some()), self.kept.len()]
    }

    /// The scalar that backward starts from.
    pub(super) fn loss(&self) -> Option<&Tensor> {
        self.loss.as_ref()
    }
}
