//! Handles on tensors, as Python has them: dropping the last one records a free.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use super::dimension::{Dimension, row_major, shape_text};
use super::tables::Tables;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{self, Step, TensorId, Type};

/// Type, layout and storage of a tensor.
#[derive(Clone, Debug)]
pub(super) struct TensorFacts {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<Dimension>,
    /// `None` is contiguous.
    pub(super) strides: Option<Vec<Dimension>>,
    pub(super) requires_grad: bool,
    pub(super) is_leaf: bool,
    pub(super) storage: u32,
    pub(super) offset: Dimension,
}

pub(super) struct Recorded {
    pub(super) tables: Rc<RefCell<Tables>>,
    pub(super) types: Vec<Type>,
    pub(super) tensors: Vec<model::Tensor>,
    pub(super) facts: Vec<TensorFacts>,
    pub(super) steps: Vec<Step>,
    pub(super) storages: u32,
    pub(super) given: u32,
    pub(super) kept: HashMap<u32, Tensor>,
    pub(super) kept_order: Vec<TensorId>,
}

/// A handle on a tensor.
#[derive(Clone)]
pub(super) struct Tensor(pub(super) Rc<Handle>);

pub(super) struct Handle {
    pub(super) id: u32,
    pub(super) facts: TensorFacts,
    pub(super) recorded: Weak<RefCell<Recorded>>,
    pub(super) is_given: bool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        if let Some(recorded) = self.recorded.upgrade() {
            let steps = &mut recorded.borrow_mut().steps;
            match steps.last_mut() {
                Some(Step::Free(freed)) => freed.push(TensorId(self.id)),
                _ => steps.push(Step::Free(vec![TensorId(self.id)])),
            }
        }
    }
}

impl Tensor {
    pub(super) fn id(&self) -> TensorId {
        TensorId(self.0.id)
    }

    pub(super) fn shape(&self) -> &[Dimension] {
        &self.0.facts.shape
    }

    pub(super) fn dtype(&self) -> Dtype {
        self.0.facts.dtype
    }

    pub(super) fn shape_text(&self) -> String {
        shape_text(self.shape())
    }

    pub(super) fn strides(&self) -> Option<Vec<Dimension>> {
        self.0.facts.strides.clone()
    }

    pub(super) fn strides_or_row_major(&self) -> Vec<Dimension> {
        self.strides().unwrap_or_else(|| row_major(self.shape()))
    }

    pub(super) fn offset(&self) -> Dimension {
        self.0.facts.offset.clone()
    }
}

/// Drops them, the first one first.
pub(super) fn drop_in_order(tensors: impl IntoIterator<Item = Tensor>) {
    tensors.into_iter().for_each(drop);
}
