//! What of a model a simulated step went through, and what it kept for its backward pass.

use std::collections::HashSet;
use std::rc::Rc;

use crate::autograd::Tensor;
use crate::memory::{ADDED_LOSS, Category};

/// Notes on one simulated step, by place.
#[derive(Clone, Debug, Default)]
pub struct Visits {
    calls: Vec<u32>,
    nodes: Vec<bool>,
    unfused: Vec<bool>,
    saved: Vec<u64>,
    saved_by_added_loss: u64,
    seen: HashSet<usize>,
}

impl Visits {
    /// How often the call of a place ran; more than once where it was made again for a checkpoint.
    pub fn calls(&self, place: usize) -> u32 {
        self.calls.get(place).copied().unwrap_or(0)
    }

    /// Whether a gradient came back to a place.
    pub fn has_run_backward(&self, place: usize) -> bool {
        self.nodes.get(place).copied().unwrap_or(false)
    }

    /// Whether a fused kernel computes the attention of a place.
    pub fn is_attention_fused(&self, place: usize) -> bool {
        !self.unfused.get(place).copied().unwrap_or(false)
    }

    /// Bytes that the calls of a place saved for backward and that nothing had saved before; weights and inputs, which
    /// are there anyway, are not counted.
    pub fn saved(&self, place: usize) -> u64 {
        self.saved.get(place).copied().unwrap_or(0)
    }

    /// The same of a loss that was added to the model.
    pub fn saved_by_added_loss(&self) -> u64 {
        self.saved_by_added_loss
    }

    pub(crate) fn note_call(&mut self, place: u32) {
        if let Some(calls) = slot(&mut self.calls, place) {
            *calls += 1;
        }
    }

    pub(crate) fn note_node(&mut self, place: u32) {
        if let Some(has_run) = slot(&mut self.nodes, place) {
            *has_run = true;
        }
    }

    /// Attention that runs as plain operators everywhere.
    pub fn note_unfused_attention(&mut self, place: u32) {
        if let Some(is_unfused) = slot(&mut self.unfused, place) {
            *is_unfused = true;
        }
    }

    pub(crate) fn note_saved<'a>(&mut self, place: u32, saved: impl Iterator<Item = &'a Tensor>) {
        for storage in saved.filter_map(Tensor::storage) {
            let is_given = matches!(storage.category(), Category::Parameters | Category::Inputs);
            if is_given || !self.seen.insert(Rc::as_ptr(storage).addr()) {
                continue;
            }
            if place == ADDED_LOSS {
                self.saved_by_added_loss += storage.bytes();
            } else if let Some(bytes) = slot(&mut self.saved, place) {
                *bytes += storage.bytes();
            }
        }
    }
}

/// What is noted of a place; nothing of what happens outside the captured calls.
fn slot<T: Clone + Default>(list: &mut Vec<T>, place: u32) -> Option<&mut T> {
    if place >= ADDED_LOSS {
        return None;
    }
    let index = place as usize;
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    list.get_mut(index)
}
