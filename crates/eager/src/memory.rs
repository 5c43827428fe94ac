//! The simulated program's memory: every request is written down, for an allocator to answer afterwards.
//!
//! No rule looks at addresses or at how much is free, so a program asks for the same whatever GPU it runs on; where an
//! allocation fails the list simply ends there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use vramfit_cudnn::convolution::PlanId;

/// The step index of what happens outside the captured calls.
pub const NOWHERE: u32 = u32::MAX;

/// The step index of a loss that was added to a model which returns none.
pub const ADDED_LOSS: u32 = NOWHERE - 1;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Category {
    /// Weights and buffers.
    Parameters,
    /// `.grad` of weights.
    Gradients,
    /// What the optimizer keeps.
    Optimizer,
    /// Results of the forward pass that something still needs.
    Activations,
    /// Inputs and targets.
    Inputs,
    /// What the model returned.
    Outputs,
    /// Everything short-lived.
    Temporary,
    /// Kept by cuBLAS, cuDNN and the like.
    Workspace,
}

impl Category {
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// One request to the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Memory was asked for.
    Allocate {
        /// Its number: requests count from 0.
        id: u32,
        /// Bytes asked for; 0 only for a workspace that may be something under another assumption.
        bytes: u64,
        /// What the program was doing: an index given by [`Memory::set_place`].
        place: u32,
        /// What it is for.
        category: Category,
        /// Whose workspace it is, where the program can do without it.
        plan: Option<PlanId>,
    },
    /// Memory was let go of.
    Free {
        /// Its number.
        id: u32,
    },
}

/// Something that happens between requests, after the first `at` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// How many requests came before.
    pub at: usize,
    /// What.
    pub what: Happening,
}

/// What happens between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// Memory counts as something else from now on.
    Recount {
        /// Its number.
        id: u32,
        /// What it is for.
        category: Category,
    },
    /// The context's local memory grows.
    LocalMemoryGrows,
    /// A library takes so many bytes for itself.
    LibraryTakes(u64),
    /// The process lets go of so many bytes on the host.
    HostFrees(u64),
}

/// The simulated program's memory.
#[derive(Debug)]
pub struct Memory {
    journal: Vec<Entry>,
    asides: Vec<Aside>,
    place: u32,
    category: Category,
    next_id: u32,
    live: u32,
    is_muted: bool,
    is_closed: bool,
}

/// The number of memory that is none: nothing was asked for.
const NOTHING: u32 = u32::MAX;

/// A piece of memory, given back when the last tensor on it goes.
#[derive(Debug)]
pub struct Storage {
    memory: SharedMemory,
    bytes: u64,
    id: u32,
    category: Cell<Category>,
}

/// The memory, as everything that may free some of it holds it.
pub type SharedMemory = Rc<RefCell<Memory>>;

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Memory {
    /// Nothing has been asked for yet.
    pub fn new() -> Memory {
        Memory::with_capacity(0)
    }

    /// The same, with room for so many requests.
    pub fn with_capacity(requests: usize) -> Memory {
        Memory {
            journal: Vec::with_capacity(requests),
            asides: Vec::new(),
            place: 0,
            category: Category::Parameters,
            next_id: 0,
            live: 0,
            is_muted: false,
            is_closed: false,
        }
    }

    /// The requests so far.
    pub fn journal(&self) -> &[Entry] {
        &self.journal
    }

    /// What has happened between requests so far.
    pub fn asides(&self) -> &[Aside] {
        &self.asides
    }

    /// Takes back the requests from `entry` on, and what happened between them from `aside` on.
    pub fn split_off(&mut self, entry: usize, aside: usize) -> (Vec<Entry>, Vec<Aside>) {
        (self.journal.split_off(entry), self.asides.split_off(aside))
    }

    /// Writes down a request that nothing simulated stands behind.
    pub fn write(&mut self, entry: Entry) {
        self.journal.push(entry);
    }

    /// Makes room for so many more requests.
    pub fn reserve(&mut self, requests: usize) {
        self.journal.reserve_exact(requests);
    }

    /// Writes down requests that nothing simulated stands behind.
    pub fn write_all(&mut self, entries: impl Iterator<Item = Entry>) {
        self.journal.extend(entries);
    }

    /// The same for what happens between requests.
    pub fn tell_all(&mut self, asides: impl Iterator<Item = Aside>) {
        self.asides.extend(asides);
    }

    /// The next memory gets this number.
    pub fn count_on_from(&mut self, next_id: u32) {
        self.next_id = next_id;
    }

    /// The requests, and what happened between them; what is let go of from now on is not written down.
    pub fn close(&mut self) -> (Vec<Entry>, Vec<Aside>) {
        self.is_closed = true;
        (std::mem::take(&mut self.journal), std::mem::take(&mut self.asides))
    }

    /// Something happens that the allocator is not asked for.
    pub fn tell(&mut self, what: Happening) {
        self.asides.push(Aside { at: self.journal.len(), what });
    }

    /// The number the next memory gets.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// How many pieces of memory have not been let go of.
    pub fn live(&self) -> u32 {
        self.live
    }

    /// What the program is doing from now on, for the peak and the journal.
    pub fn set_place(&mut self, place: u32) {
        self.place = place;
    }

    /// What the program is doing.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// What memory is for from now on, unless said otherwise.
    pub fn set_category(&mut self, category: Category) {
        self.category = category;
    }

    /// While muted nothing is allocated: what runs then does not happen, it only tells its shapes.
    pub fn set_muted(&mut self, is_muted: bool) {
        self.is_muted = is_muted;
    }

    /// Whether nothing is allocated.
    pub fn is_muted(&self) -> bool {
        self.is_muted
    }

    fn allocate(&mut self, bytes: u64) -> u32 {
        if bytes == 0 || self.is_muted {
            return NOTHING;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.live += 1;
        let (place, category) = (self.place, self.category);
        self.journal.push(Entry::Allocate { id, bytes, place, category, plan: None });
        id
    }

    /// The workspace of a plan of cuDNN's is asked for and let go of.
    pub fn pass_through(&mut self, bytes: u64, plan: PlanId) {
        if self.is_muted {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let (place, category) = (self.place, Category::Workspace);
        self.journal.push(Entry::Allocate { id, bytes, place, category, plan: Some(plan) });
        self.journal.push(Entry::Free { id });
    }

    fn free(&mut self, id: u32) {
        if !self.is_closed {
            self.live -= 1;
            self.journal.push(Entry::Free { id });
        }
    }
}

impl Storage {
    /// Asks `memory` for `bytes`.
    #[inline]
    pub fn new(memory: &SharedMemory, bytes: u64) -> Rc<Storage> {
        Rc::new(Storage::alone(memory, bytes))
    }

    /// The same, for one holder.
    #[inline]
    pub fn alone(memory: &SharedMemory, bytes: u64) -> Storage {
        let mut borrowed = memory.borrow_mut();
        let category = borrowed.category;
        let id = borrowed.allocate(bytes);
        drop(borrowed);
        Storage { memory: Rc::clone(memory), bytes, id, category: Cell::new(category) }
    }

    /// From now on this memory counts as `category`.
    pub fn become_category(&self, category: Category) {
        if self.category.replace(category) != category && self.id != NOTHING {
            self.memory.borrow_mut().tell(Happening::Recount { id: self.id, category });
        }
    }

    /// What it is for.
    pub fn category(&self) -> Category {
        self.category.get()
    }

    /// Its number among the requests; `None` where nothing was asked for.
    pub fn id(&self) -> Option<u32> {
        (self.id != NOTHING).then_some(self.id)
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.id != NOTHING {
            self.memory.borrow_mut().free(self.id);
        }
    }
}
