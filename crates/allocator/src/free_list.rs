//! Cached blocks in best fit's order.
//!
//! A training asks for few sizes, again and again. So blocks lie on shelves, one a size, and best fit is a search among
//! the sizes; a shelf that has become empty is left for its size to come back, or for a neighbouring one.

use crate::block::BlockId;

/// Best fit's order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// Empty shelves that are left, beyond as many as there are others.
const SPARE: usize = 32;

/// Cached blocks by [`SizeKey`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// The stream and size of each shelf, in order.
    sizes: Vec<(u64, u64)>,
    /// The blocks of each, the lowest address last: it is the next to be taken.
    shelves: Vec<Vec<(u64, BlockId)>>,
    /// How many shelves are empty.
    empty: usize,
}

/// A place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    shelf: usize,
    /// Counted from the lowest address on.
    at: usize,
}

impl FreeList {
    /// The first shelf that does not come before a stream and size.
    #[inline]
    fn shelf_from(&self, stream: u64, size: u64) -> usize {
        // Without a branch that could be guessed wrongly.
        self.sizes.partition_point(|found| (found.0 < stream) | ((found.0 == stream) & (found.1 < size)))
    }

    /// The place of the first block that does not come before `key`.
    #[inline]
    pub fn first_from(&self, (stream, size, address): SizeKey) -> Position {
        let shelf = self.shelf_from(stream, size);
        let at = match self.sizes.get(shelf) {
            Some(&found) if address > 0 && found == (stream, size) => {
                self.shelves[shelf].len() - self.shelves[shelf].partition_point(|(found, _)| *found >= address)
            }
            _ => 0,
        };
        self.settled(Position { shelf, at })
    }

    /// The place itself where a block lies there, or the next one where one does.
    #[inline]
    fn settled(&self, mut position: Position) -> Position {
        while self.shelves.get(position.shelf).is_some_and(|shelf| position.at >= shelf.len()) {
            position = Position { shelf: position.shelf + 1, at: 0 };
        }
        position
    }

    /// The block at a place.
    #[inline]
    pub fn at(&self, position: Position) -> Option<(SizeKey, BlockId)> {
        let shelf = self.shelves.get(position.shelf)?;
        let &(address, id) = shelf.get(shelf.len().checked_sub(position.at + 1)?)?;
        let (stream, size) = self.sizes[position.shelf];
        Some(((stream, size, address), id))
    }

    /// The place after.
    #[inline]
    pub fn next(&self, position: Position) -> Position {
        self.settled(Position { at: position.at + 1, ..position })
    }

    /// Adds a block.
    #[inline]
    pub fn insert(&mut self, (stream, size, address): SizeKey, id: BlockId) {
        let at = self.shelf_from(stream, size);
        if self.sizes.get(at) != Some(&(stream, size)) {
            self.make_shelf(at, (stream, size));
        }
        let shelf = &mut self.shelves[at];
        if shelf.is_empty() {
            self.empty -= 1;
        }
        let place = shelf.partition_point(|(found, _)| *found > address);
        shelf.insert(place, (address, id));
    }

    /// Makes place `at` an empty shelf for a size.
    fn make_shelf(&mut self, at: usize, size: (u64, u64)) {
        match self.shelves.get(at) {
            // The shelf there is free: all sizes before it are smaller, all after it larger than this one.
            Some(shelf) if shelf.is_empty() => self.sizes[at] = size,
            _ => {
                self.sizes.insert(at, size);
                self.shelves.insert(at, Vec::new());
                self.empty += 1;
            }
        }
    }

    /// Takes the block at a place out.
    #[inline]
    pub fn remove_at(&mut self, position: Position) -> Option<(SizeKey, BlockId)> {
        let removed = self.at(position)?;
        let shelf = &mut self.shelves[position.shelf];
        shelf.remove(shelf.len() - 1 - position.at);
        if shelf.is_empty() {
            self.empty += 1;
            if self.empty > self.sizes.len() - self.empty + SPARE {
                self.clear_away();
            }
        }
        Some(removed)
    }

    /// Takes empty shelves away.
    fn clear_away(&mut self) {
        let mut shelves = self.shelves.iter();
        self.sizes.retain(|_| shelves.next().is_some_and(|shelf| !shelf.is_empty()));
        self.shelves.retain(|shelf| !shelf.is_empty());
        self.empty = 0;
    }

    /// Takes the block with this key out.
    #[inline]
    pub fn remove(&mut self, key: &SizeKey) -> Option<BlockId> {
        let position = self.first_from(*key);
        match self.at(position) {
            Some((found, id)) if found == *key => {
                self.remove_at(position);
                Some(id)
            }
            _ => None,
        }
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        self.sizes.iter().zip(&self.shelves).flat_map(|(&(stream, size), shelf)| {
            shelf.iter().rev().map(move |&(address, id)| ((stream, size, address), id))
        })
    }

    /// The block with this key.
    pub fn get(&self, key: SizeKey) -> Option<BlockId> {
        self.at(self.first_from(key)).filter(|(found, _)| *found == key).map(|(_, id)| id)
    }

    /// The blocks that do not come before `key`, in order.
    pub fn from(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().skip_while(move |(found, _)| *found < key)
    }

    /// The blocks before `key`, from the last on.
    pub fn before(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().rev().skip_while(move |(found, _)| *found >= key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_list_is_an_ordered_map() {
        let (mut list, mut map) = (FreeList::default(), BTreeMap::new());
        let mut state = 1_u64;
        for number in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (state >> 62, (state >> 40) % 23, (state >> 33) % 97);
            let grows = (number / 2000) % 2 == 0;
            if grows != (state >> 13).is_multiple_of(3) {
                if let std::collections::btree_map::Entry::Vacant(vacant) = map.entry(key) {
                    vacant.insert(BlockId(number));
                    list.insert(key, BlockId(number));
                }
            } else {
                assert_eq!(list.remove(&key), map.remove(&key));
            }
            let position = list.first_from(key);
            let mut expected = map.range(key..).map(|(key, id)| (*key, *id));
            assert_eq!(list.at(position), expected.next());
            if list.at(position).is_some() {
                assert_eq!(list.at(list.next(position)), expected.next());
            }
            if number % 97 == 0 {
                assert!(list.iter().eq(map.iter().map(|(key, id)| (*key, *id))));
                assert!(list.before(key).eq(map.range(..key).rev().map(|(key, id)| (*key, *id))));
                assert!(list.sizes.is_sorted() && list.sizes.len() == list.shelves.len());
                assert_eq!(list.empty, list.shelves.iter().filter(|shelf| shelf.is_empty()).count());
            }
        }
    }
}
