//! The live allocations at an instant of a simulated run.

use vramfit_eager::memory::{Category, Entry};

use crate::report::Run;

/// A live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number in the journal.
    pub id: u32,
    /// Bytes of its block, rounding included.
    pub block: u64,
    /// What it is for.
    pub category: Category,
    /// The captured step that asked for it, as in [`Entry::Allocate`].
    pub origin: u32,
}

impl Run {
    /// The live allocations after the first `instant` entries of the journal, in order of allocation. Empty unless the
    /// journal was kept.
    pub fn held_at(&self, instant: u32) -> Vec<Holder> {
        let mut held: Vec<Option<Holder>> = Vec::new();
        for entry in self.journal.iter().take(instant as usize) {
            match *entry {
                Entry::Allocate { bytes: 0, .. } => {}
                Entry::Allocate { id, origin, .. } => {
                    if held.len() <= id as usize {
                        held.resize(id as usize + 1, None);
                    }
                    held[id as usize] = Some(Holder { id, block: 0, category: Category::Temporary, origin });
                }
                Entry::Free { id } => {
                    if let Some(held) = held.get_mut(id as usize) {
                        *held = None;
                    }
                }
            }
        }
        for label in self.labels.iter().take_while(|label| label.instant <= instant) {
            if let Some(Some(held)) = held.get_mut(label.id as usize) {
                (held.block, held.category) = (label.block, label.category);
            }
        }
        held.into_iter().flatten().collect()
    }
}
