//! Allocations that tensors hold.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Category, NOTHING, SharedMemory, SideEventKind};

/// An allocation, freed on drop.
#[derive(Debug)]
pub struct Storage {
    memory: SharedMemory,
    bytes: u64,
    id: Cell<u32>,
    category: Cell<Category>,
    /// Whether [`Storage::refill`] may give it other memory.
    is_refillable: bool,
    /// Held by all storages that share the allocation: the last one frees it.
    sharing: RefCell<Option<Rc<()>>>,
}

impl Storage {
    /// Allocates `bytes` that several tensors may share.
    #[inline]
    pub fn new(memory: &SharedMemory, bytes: u64) -> Rc<Storage> {
        Rc::new(Storage::unshared(memory, bytes))
    }

    /// Allocates `bytes` for a single owner.
    #[inline]
    pub fn unshared(memory: &SharedMemory, bytes: u64) -> Storage {
        let mut borrowed = memory.borrow_mut();
        let category = borrowed.category;
        let id = borrowed.allocate(bytes);
        drop(borrowed);
        Storage::with(memory, bytes, (id, category), false)
    }

    /// A storage of size 0 that [`Storage::resize_to_full`] gives `bytes`.
    pub fn unallocated(memory: &SharedMemory, bytes: u64, category: Category) -> Rc<Storage> {
        Rc::new(Storage::with(memory, bytes, (NOTHING, category), false))
    }

    /// A storage of size 0 that [`Storage::refill`] gives memory. Views of it keep the memory that it had when they were made.
    pub fn refillable(memory: &SharedMemory, bytes: u64, category: Category) -> Rc<Storage> {
        Rc::new(Storage::with(memory, bytes, (NOTHING, category), true))
    }

    fn with(memory: &SharedMemory, bytes: u64, (id, category): (u32, Category), is_refillable: bool) -> Storage {
        let (id, category) = (Cell::new(id), Cell::new(category));
        Storage { memory: Rc::clone(memory), bytes, id, category, is_refillable, sharing: RefCell::default() }
    }

    /// The storage of a view: itself, but of one that may get other memory a storage that shares what it has now.
    pub fn of_view(self: &Rc<Self>) -> Rc<Storage> {
        if !self.is_refillable {
            return Rc::clone(self);
        }
        let shared = Storage::with(&self.memory, self.bytes, (self.id.get(), self.category.get()), false);
        if self.id.get() != NOTHING {
            let sharing = Rc::clone(self.sharing.borrow_mut().get_or_insert_default());
            shared.sharing.replace(Some(sharing));
        }
        Rc::new(shared)
    }

    /// `resize_(0)`: frees its memory, which its tensors share.
    pub fn resize_to_nothing(&self) {
        let id = self.id.replace(NOTHING);
        let is_shared = self.sharing.take().is_some_and(|sharing| Rc::strong_count(&sharing) > 1);
        if id != NOTHING && !is_shared {
            self.memory.borrow_mut().free(id);
        }
    }

    /// `resize_` to its full size: allocates its memory again.
    pub fn resize_to_full(&self) {
        if self.id.get() == NOTHING {
            let mut memory = self.memory.borrow_mut();
            let before = std::mem::replace(&mut memory.category, self.category.get());
            self.id.set(memory.allocate(self.bytes));
            memory.category = before;
        }
    }

    /// `tensor.data = other`: it gets memory of so many bytes, which its tensors share.
    pub fn refill(&self, bytes: u64) {
        self.resize_to_nothing();
        let mut memory = self.memory.borrow_mut();
        let before = std::mem::replace(&mut memory.category, self.category.get());
        self.id.set(memory.allocate(bytes));
        memory.category = before;
    }

    /// Changes what this memory counts as.
    pub fn become_category(&self, category: Category) {
        if self.category.replace(category) != category && self.id.get() != NOTHING {
            self.memory.borrow_mut().add_side_event(SideEventKind::CategoryChanged { id: self.id.get(), category });
        }
    }

    /// What it counts as.
    pub fn category(&self) -> Category {
        self.category.get()
    }

    /// The number of its allocation; `None` where nothing was allocated.
    pub fn id(&self) -> Option<u32> {
        (self.id.get() != NOTHING).then_some(self.id.get())
    }

    /// Requested bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if self.id.get() != NOTHING {
            self.resize_to_nothing();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Entry;

    fn requests(memory: &SharedMemory) -> Vec<(char, u64)> {
        let request = |entry: &Entry| match *entry {
            Entry::Allocate { bytes, .. } => ('+', bytes),
            Entry::Free { id } => ('-', u64::from(id)),
        };
        memory.borrow().journal().iter().map(request).collect()
    }

    #[test]
    fn a_view_keeps_the_memory_that_a_refillable_storage_had() {
        let memory: SharedMemory = Rc::default();
        let storage = Storage::refillable(&memory, 10, Category::Parameters);
        storage.refill(12);
        let view = storage.of_view();
        storage.resize_to_nothing();
        storage.refill(10);
        assert_eq!(requests(&memory), [('+', 12), ('+', 10)], "the view still holds the first");
        assert_eq!((view.id(), storage.id()), (Some(0), Some(1)));
        drop(view);
        drop(storage);
        assert_eq!(requests(&memory)[2..], [('-', 0), ('-', 1)]);
    }

    #[test]
    fn the_last_of_those_that_share_memory_frees_it() {
        let memory: SharedMemory = Rc::default();
        let storage = Storage::refillable(&memory, 10, Category::Parameters);
        storage.refill(10);
        let views = [storage.of_view(), storage.of_view()];
        drop(views);
        assert_eq!(requests(&memory), [('+', 10)]);
        storage.resize_to_nothing();
        assert_eq!(requests(&memory), [('+', 10), ('-', 0)]);
    }

    #[test]
    fn a_view_of_another_storage_is_emptied_with_it() {
        let memory: SharedMemory = Rc::default();
        let storage = Storage::new(&memory, 10);
        let view = storage.of_view();
        assert!(Rc::ptr_eq(&storage, &view));
        storage.resize_to_nothing();
        assert_eq!(view.id(), None);
    }
}
