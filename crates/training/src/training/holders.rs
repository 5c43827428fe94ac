//! Who holds the memory at an instant of a simulated run.

use super::report::Run;
use vramfit_eager::memory::{Category, Entry};

/// A piece of memory that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its number in the journal.
    pub id: u32,
    /// Bytes of its block, rounding included.
    pub block: u64,
    /// What it is for.
    pub category: Category,
    /// What the program was doing when it asked for it.
    pub place: u32,
}

impl Run {
    /// What is held after the first `instant` entries of the journal, in the order in which it was asked for. Empty where
    /// no journal was kept.
    pub fn held_at(&self, instant: u32) -> Vec<Held> {
        let mut held: Vec<Option<Held>> = Vec::new();
        for entry in self.journal.iter().take(instant as usize) {
            match *entry {
                Entry::Allocate { bytes: 0, .. } => {}
                Entry::Allocate { id, place, .. } => {
                    if held.len() <= id as usize {
                        held.resize(id as usize + 1, None);
                    }
                    held[id as usize] = Some(Held { id, block: 0, category: Category::Temporary, place });
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
