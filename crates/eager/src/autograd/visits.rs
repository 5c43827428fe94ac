//! Which calls of a captured pass a simulated training step ran, and what they saved for backward.

use std::collections::HashSet;

use super::Tensor;
use crate::memory::{ADDED_LOSS, Category};

/// Tensors that a call copied from the GPU to the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTraffic {
    /// How many.
    pub tensors: u32,
    /// Their bytes.
    pub bytes: u64,
}

/// What one simulated training step ran, by index of the step in the captured pass.
#[derive(Clone, Debug, Default)]
pub struct Visits {
    calls: Vec<u32>,
    nodes: Vec<bool>,
    unfused: Vec<bool>,
    saved: Vec<u64>,
    saved_by_added_loss: u64,
    on_host: Vec<HostTraffic>,
    /// The allocations counted so far. Ids, not addresses: recomputation frees storages and makes new ones.
    seen: HashSet<u32>,
}

impl Visits {
    /// How often the call ran: more than once where a checkpoint recomputed it.
    pub fn calls(&self, step: usize) -> u32 {
        self.calls.get(step).copied().unwrap_or(0)
    }

    /// Whether the backward pass reached the call.
    pub fn has_run_backward(&self, step: usize) -> bool {
        self.nodes.get(step).copied().unwrap_or(false)
    }

    /// Whether a fused kernel computes the call, which is an attention.
    pub fn is_attention_fused(&self, step: usize) -> bool {
        !self.unfused.get(step).copied().unwrap_or(false)
    }

    /// Bytes that the call saved for backward and that no earlier call had saved; weights and inputs are not counted.
    pub fn saved(&self, step: usize) -> u64 {
        self.saved.get(step).copied().unwrap_or(0)
    }

    /// What of the call's saved tensors was copied to the host.
    pub fn on_host(&self, step: usize) -> HostTraffic {
        self.on_host.get(step).copied().unwrap_or_default()
    }

    /// Bytes that a loss saved which was added to the model.
    pub fn saved_by_added_loss(&self) -> u64 {
        self.saved_by_added_loss
    }

    pub(crate) fn note_call(&mut self, step: u32) {
        if let Some(calls) = slot(&mut self.calls, step) {
            *calls += 1;
        }
    }

    pub(crate) fn note_host_copy(&mut self, origin: u32, copied: HostTraffic) {
        if let Some(known) = slot(&mut self.on_host, origin) {
            known.tensors += copied.tensors;
            known.bytes += copied.bytes;
        }
    }

    pub(crate) fn note_node(&mut self, origin: u32) {
        if let Some(has_run) = slot(&mut self.nodes, origin) {
            *has_run = true;
        }
    }

    /// An attention that no fused kernel computes.
    pub fn note_unfused_attention(&mut self, step: u32) {
        if let Some(is_unfused) = slot(&mut self.unfused, step) {
            *is_unfused = true;
        }
    }

    pub(crate) fn note_saved<'a>(&mut self, origin: u32, saved: impl Iterator<Item = &'a Tensor>) {
        for storage in saved.filter_map(Tensor::storage) {
            let is_given = matches!(storage.category(), Category::Parameters | Category::Inputs);
            if is_given || !storage.id().is_some_and(|id| self.seen.insert(id)) {
                continue;
            }
            if origin == ADDED_LOSS {
                self.saved_by_added_loss += storage.bytes();
            } else if let Some(bytes) = slot(&mut self.saved, origin) {
                *bytes += storage.bytes();
            }
        }
    }
}

/// The entry of a captured step; `None` for what happens outside the captured pass.
fn slot<T: Clone + Default>(list: &mut Vec<T>, origin: u32) -> Option<&mut T> {
    if origin >= ADDED_LOSS {
        return None;
    }
    let index = origin as usize;
    if list.len() <= index {
        list.resize(index + 1, T::default());
    }
    list.get_mut(index)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use vramfit_graph::dtype::Dtype;
    use vramfit_graph::layout::Layout;

    use super::*;
    use crate::memory::Memory;

    #[test]
    fn saved_memory_counts_once_and_again_after_it_was_freed_and_recomputed() {
        let memory = Rc::new(RefCell::new(Memory::new()));
        memory.borrow_mut().set_category(Category::Activations);
        let empty = || Tensor::empty(&memory, Layout::contiguous(Dtype::Float32, &[256]));
        let mut visits = Visits::default();
        for recomputations in 1..=8 {
            // The host reuses the address of the tensor before, which is gone.
            let tensor = empty();
            visits.note_saved(3, [&tensor, &tensor.detach()].into_iter());
            assert_eq!(visits.saved(3), recomputations * 1024);
        }
    }

    #[test]
    fn what_runs_muted_saves_nothing() {
        let memory = Rc::new(RefCell::new(Memory::new()));
        memory.borrow_mut().set_category(Category::Activations);
        memory.borrow_mut().set_muted(true);
        let mut visits = Visits::default();
        visits.note_saved(3, [&Tensor::empty(&memory, Layout::contiguous(Dtype::Float32, &[256]))].into_iter());
        assert_eq!(visits.saved(3), 0);
    }
}
