//! The names that a forward pass binds, and what they hold.

use vramfit_graph::bind::Bound;
use vramfit_graph::model::TensorId;

use vramfit_eager::autograd::Tensor;
use vramfit_eager::memory::Category;

use crate::script::Name;

/// What `outputs` and `loss` hold, and what the model keeps on itself, such as a cache.
#[derive(Default)]
pub(crate) struct Names {
    outputs: Vec<Tensor>,
    loss: Option<Tensor>,
    kept: Vec<Tensor>,
}

/// What the model itself keeps of a pass, such as a cache.
pub(crate) fn kept_by_model<'b>(bound: &'b Bound<'_>) -> impl Iterator<Item = TensorId> + 'b {
    let (variant, given) = (bound.variant, bound.model.given_count());
    let is_kept = move |id: &TensorId| {
        id.0 as usize >= given
            && variant.loss != Some(*id)
            && !variant.outputs.contains(id)
            && !variant.constants.contains(id)
    };
    variant.held.iter().copied().filter(is_kept)
}

impl Names {
    /// `outputs = model(…)`: frees what the name held before.
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

    /// `loss = …`: frees what the name held before.
    pub(super) fn bind_loss(&mut self, loss: Option<Tensor>) {
        if let Some(storage) = loss.as_ref().and_then(Tensor::storage) {
            storage.become_category(Category::Outputs);
        }
        self.loss = loss;
    }

    /// The model keeps tensors of this pass: frees those it kept of the pass before.
    pub(super) fn bind_kept(&mut self, bound: &Bound<'_>, tensors: &[Option<Tensor>]) {
        self.kept = kept_by_model(bound).filter_map(|id| tensors[id.0 as usize].clone()).collect();
    }

    /// Frees what a name holds.
    pub(crate) fn release(&mut self, name: Name) {
        match name {
            Name::Outputs => self.outputs = Vec::new(),
            Name::Loss => self.loss = None,
            Name::Kept => self.kept = Vec::new(),
        }
    }

    /// The tensors of all names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Tensor> {
        self.outputs.iter().chain(&self.loss).chain(&self.kept)
    }

    /// How many tensors each name holds.
    pub(crate) fn counts(&self) -> [usize; 3] {
        [self.outputs.len(), usize::from(self.loss.is_some()), self.kept.len()]
    }

    /// The loss, from which the backward pass starts.
    pub(super) fn loss(&self) -> Option<&Tensor> {
        self.loss.as_ref()
    }
}
