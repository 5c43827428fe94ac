//! Where the simulated program's memory comes from, and the account that is kept of it.

use std::cell::RefCell;
use std::rc::Rc;

use vramfit_allocator::{Allocator, BlockId, OutOfMemory, Settings, SimulatedDriver};
use vramfit_trace::snapshot::PoolId;

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

/// One request, for the diff with a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Memory was asked for.
    Allocate {
        /// Its number.
        id: u32,
        /// Bytes asked for.
        bytes: u64,
        /// What the program was doing: an index given by [`Memory::set_place`].
        place: u32,
    },
    /// Memory was let go of.
    Free {
        /// Its number.
        id: u32,
    },
}

/// Whether the program can go on without the memory it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Vital,
    Forgoable,
}

/// What is held at an instant, by category: bytes of blocks, and how much of that is rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes asked for, by [`Category`].
    pub requested: [u64; Category::COUNT],
    /// Bytes of blocks beyond what was asked for.
    pub rounding: u64,
}

/// The most that was allocated since the peak was last reset, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Bytes of blocks.
    pub allocated: u64,
    /// What they were for.
    pub account: Account,
    /// What the program was doing.
    pub place: u32,
}

/// The simulated GPU's memory.
#[derive(Debug)]
pub struct Memory {
    allocator: Allocator<SimulatedDriver>,
    account: Account,
    peak: Peak,
    place: u32,
    category: Category,
    journal: Option<Vec<Entry>>,
    next_id: u32,
    is_muted: bool,
    failure: Option<OutOfMemory>,
}

/// A piece of memory, given back when the last tensor on it goes.
#[derive(Debug)]
pub struct Storage {
    memory: SharedMemory,
    block: Option<BlockId>,
    bytes: u64,
    category: std::cell::Cell<Category>,
    id: u32,
}

/// The memory, as everything that may free some of it holds it.
pub type SharedMemory = Rc<RefCell<Memory>>;

impl Memory {
    /// An empty GPU.
    pub fn new(settings: Settings, driver: SimulatedDriver) -> Memory {
        Memory {
            allocator: Allocator::new(settings, driver),
            account: Account::default(),
            peak: Peak::default(),
            place: 0,
            category: Category::Parameters,
            journal: None,
            next_id: 0,
            is_muted: false,
            failure: None,
        }
    }

    /// From now on every request is written down.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// What was written down.
    pub fn journal(&self) -> &[Entry] {
        self.journal.as_deref().unwrap_or(&[])
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

    /// The allocator's state.
    pub fn allocator(&self) -> &Allocator<SimulatedDriver> {
        &self.allocator
    }

    /// The first allocation that failed; after it nothing is allocated any more.
    pub fn failure(&self) -> Option<OutOfMemory> {
        self.failure
    }

    /// The peak since it was last reset.
    pub fn peak(&self) -> Peak {
        self.peak
    }

    /// As `torch.cuda.reset_peak_memory_stats`.
    pub fn reset_peak(&mut self) {
        self.peak = Peak { allocated: self.allocator.allocated_bytes(), account: self.account, place: self.place };
        self.allocator.reset_peaks();
    }

    fn allocate(&mut self, bytes: u64, category: Category, need: Need) -> (Option<BlockId>, u32) {
        let id = self.next_id;
        self.next_id += 1;
        if bytes == 0 || self.is_muted || self.failure.is_some() {
            return (None, id);
        }
        let block = match self.allocator.allocate(bytes, 0, PoolId::DEFAULT) {
            Ok(block) => Some(block),
            Err(error) => {
                self.allocator.clear_changes();
                if need == Need::Forgoable {
                    return (None, id);
                }
                self.failure = Some(error);
                None
            }
        };
        if let Some(journal) = &mut self.journal {
            journal.push(Entry::Allocate { id, bytes, place: self.place });
        }
        let Some(block) = block else { return (None, id) };
        self.allocator.clear_changes();
        self.account.requested[category as usize] += bytes;
        self.account.rounding += self.allocator.block(block).size - bytes;
        let allocated = self.allocator.allocated_bytes();
        if allocated > self.peak.allocated {
            self.peak = Peak { allocated, account: self.account, place: self.place };
        }
        (Some(block), id)
    }

    fn free(&mut self, block: BlockId, bytes: u64, category: Category, id: u32) {
        if let Some(journal) = &mut self.journal {
            journal.push(Entry::Free { id });
        }
        self.account.requested[category as usize] -= bytes;
        self.account.rounding -= self.allocator.block(block).size - bytes;
        self.allocator.free(block);
    }
}

impl Storage {
    /// Asks `memory` for `bytes`.
    pub fn new(memory: &SharedMemory, bytes: u64) -> Rc<Storage> {
        let mut borrowed = memory.borrow_mut();
        let category = borrowed.category;
        let (block, id) = borrowed.allocate(bytes, category, Need::Vital);
        drop(borrowed);
        Rc::new(Storage { memory: Rc::clone(memory), block, bytes, category: category.into(), id })
    }

    /// Asks `memory` for `bytes` that the program can do without: `None` where there is no room, and nothing has failed.
    pub fn attempt(memory: &SharedMemory, bytes: u64) -> Option<Rc<Storage>> {
        let mut borrowed = memory.borrow_mut();
        let (block, id) = borrowed.allocate(bytes, Category::Workspace, Need::Forgoable);
        drop(borrowed);
        let category = Category::Workspace.into();
        block.map(|block| Rc::new(Storage { memory: Rc::clone(memory), block: Some(block), bytes, category, id }))
    }

    /// From now on this memory counts as `category`.
    pub fn become_category(&self, category: Category) {
        let old = self.category.replace(category);
        if self.block.is_some() {
            let account = &mut self.memory.borrow_mut().account;
            account.requested[old as usize] -= self.bytes;
            account.requested[category as usize] += self.bytes;
        }
    }

    /// What it is for.
    pub fn category(&self) -> Category {
        self.category.get()
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(block) = self.block {
            self.memory.borrow_mut().free(block, self.bytes, self.category.get(), self.id);
        }
    }
}
