//! Cached blocks in best fit's order.
//!
//! A training asks for few sizes, again and again. So blocks lie on shelves, one a size, and best fit is a search among
//! the sizes; a shelf that has become empty is left for its size to come back, or for a neighbouring one.

use crate::block::BlockId;

/// Best fit's order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// Empty shelves that are left, beyond as many as there are others.
const SPARE: usize = 32;

/// How many sizes it is remembered of where they were found.
const SLOTS: usize = 128;

/// Cached blocks by [`SizeKey`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// In the order of their streams.
    racks: Vec<Rack>,
    /// The block that came last, on no shelf yet: what is left of a block that was cut, or was joined, is very often the
    /// next to be cut or joined.
    hand: Option<(SizeKey, BlockId)>,
}

/// The cached blocks of one stream.
#[derive(Clone, Debug)]
struct Rack {
    stream: u64,
    /// The size of each shelf, in order.
    sizes: Vec<u64>,
    /// The blocks of each, the lowest address last: it is the next to be taken.
    shelves: Vec<Vec<(u64, BlockId)>>,
    /// How many shelves are empty.
    empty: usize,
    /// Where a size was found last, by [`slot`].
    hints: [u32; SLOTS],
}

impl Rack {
    fn new(stream: u64) -> Rack {
        Rack { stream, sizes: Vec::new(), shelves: Vec::new(), empty: 0, hints: [0; SLOTS] }
    }

    /// The first shelf that is not smaller.
    #[inline]
    fn shelf_from(&self, size: u64) -> usize {
        self.sizes.partition_point(|&found| found < size)
    }

    /// The same, looked for first where the size was found last.
    #[inline]
    fn find_shelf(&mut self, size: u64) -> usize {
        let hint = &mut self.hints[slot(size)];
        let at = *hint as usize;
        let is_there = self.sizes.get(at).is_some_and(|&found| found >= size)
            && (at == 0 || self.sizes.get(at - 1).is_some_and(|&found| found < size));
        if !is_there {
            *hint = self.sizes.partition_point(|&found| found < size) as u32;
        }
        *hint as usize
    }

    #[inline]
    fn insert(&mut self, size: u64, address: u64, id: BlockId) {
        let at = self.find_shelf(size);
        if self.sizes.get(at) != Some(&size) {
            self.make_shelf(at, size);
        }
        let shelf = &mut self.shelves[at];
        if shelf.is_empty() {
            self.empty -= 1;
        }
        match shelf.last() {
            Some(&(lowest, _)) if lowest < address => {
                let place = shelf.partition_point(|(found, _)| *found > address);
                shelf.insert(place, (address, id));
            }
            _ => shelf.push((address, id)),
        }
    }

    /// Makes place `at` an empty shelf for a size.
    fn make_shelf(&mut self, at: usize, size: u64) {
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

    /// Takes a block out, counted on its shelf from the lowest address on.
    #[inline]
    fn remove_at(&mut self, shelf: usize, at: usize) {
        let shelf = &mut self.shelves[shelf];
        if at == 0 {
            shelf.pop();
        } else {
            shelf.remove(shelf.len() - 1 - at);
        }
        if shelf.is_empty() {
            self.empty += 1;
            if self.empty > self.sizes.len() - self.empty + SPARE {
                self.clear_away();
            }
        }
    }

    /// Takes empty shelves away.
    fn clear_away(&mut self) {
        let mut shelves = self.shelves.iter();
        self.sizes.retain(|_| shelves.next().is_some_and(|shelf| !shelf.is_empty()));
        self.shelves.retain(|shelf| !shelf.is_empty());
        self.empty = 0;
    }

    /// The blocks from a shelf on.
    fn shelves_from(&self, first: usize) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        self.sizes[first..].iter().zip(&self.shelves[first..]).flat_map(move |(&size, shelf)| {
            shelf.iter().rev().map(move |&(address, id)| ((self.stream, size, address), id))
        })
    }

    /// The first shelf with a block on it that is not smaller.
    #[inline]
    fn best_fit(&mut self, size: u64) -> Option<usize> {
        let from = self.find_shelf(size);
        Some(self.shelves[from..].iter().position(|shelf| !shelf.is_empty())? + from)
    }
}

impl FreeList {
    /// The first rack that does not come before a stream.
    #[inline]
    fn rack_from(&self, stream: u64) -> usize {
        match self.racks.first() {
            // Nearly always the only one.
            Some(first) if first.stream == stream => 0,
            _ => self.racks.partition_point(|rack| rack.stream < stream),
        }
    }

    /// Adds a block.
    #[inline]
    pub fn insert(&mut self, key: SizeKey, id: BlockId) {
        if let Some((key, id)) = self.hand.replace((key, id)) {
            self.put_down(key, id);
        }
    }

    /// Puts a block on its shelf.
    #[inline]
    fn put_down(&mut self, (stream, size, address): SizeKey, id: BlockId) {
        let rack = self.rack_from(stream);
        if self.racks.get(rack).is_none_or(|found| found.stream != stream) {
            self.racks.insert(rack, Rack::new(stream));
        }
        self.racks[rack].insert(size, address, id);
    }

    /// Takes out the first block of a stream that is not smaller, if `is_fit` says so of its size.
    #[inline]
    pub fn take_fit(&mut self, stream: u64, size: u64, is_fit: impl Fn(u64) -> bool) -> Option<BlockId> {
        let index = self.rack_from(stream);
        let rack = self.racks.get_mut(index).filter(|rack| rack.stream == stream);
        let stock = rack.and_then(|rack| {
            let shelf = rack.best_fit(size)?;
            Some((shelf, *rack.shelves[shelf].last()?, rack))
        });
        if let Some(((of, held, address), id)) = self.hand
            && of == stream
            && held >= size
            && stock.as_ref().is_none_or(|(shelf, (other, _), rack)| (held, address) < (rack.sizes[*shelf], *other))
        {
            if !is_fit(held) {
                return None;
            }
            self.hand = None;
            return Some(id);
        }
        let (shelf, (_, id), rack) = stock?;
        if !is_fit(rack.sizes[shelf]) {
            return None;
        }
        rack.remove_at(shelf, 0);
        Some(id)
    }

    /// Takes the block with this key out.
    #[inline]
    pub fn remove(&mut self, key: &SizeKey) -> Option<BlockId> {
        if let Some((held, id)) = self.hand
            && held == *key
        {
            self.hand = None;
            return Some(id);
        }
        let (stream, size, address) = key;
        let index = self.rack_from(*stream);
        let rack = self.racks.get_mut(index).filter(|rack| rack.stream == *stream)?;
        let place = rack.find_shelf(*size);
        if rack.sizes.get(place) != Some(size) {
            return None;
        }
        let shelf = &rack.shelves[place];
        let at = below(shelf, *address);
        let &(found, id) = shelf.get(shelf.len().checked_sub(at + 1)?)?;
        if found != *address {
            return None;
        }
        rack.remove_at(place, at);
        Some(id)
    }

    /// The blocks from this key on, in order.
    pub fn from(&self, key: SizeKey) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        let (stream, size, _) = key;
        let first = self.rack_from(stream);
        let shelves = move || {
            self.racks[first..]
                .iter()
                .flat_map(move |rack| rack.shelves_from(if rack.stream == stream { rack.shelf_from(size) } else { 0 }))
        };
        let hand = self.hand.filter(|(held, _)| *held >= key);
        // Without one in the hand all come before it.
        let divide = hand.map_or((u64::MAX, u64::MAX, u64::MAX), |(held, _)| held);
        let below = shelves().filter(move |(found, _)| *found >= key && *found <= divide);
        let above = shelves().filter(move |(found, _)| *found > divide);
        below.chain(hand).chain(above)
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        self.from((0, 0, 0))
    }

    /// The block with this key.
    pub fn get(&self, key: SizeKey) -> Option<BlockId> {
        self.from(key).next().filter(|(found, _)| *found == key).map(|(_, id)| id)
    }

    /// The blocks before `key`, from the last on.
    pub fn before(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().rev().skip_while(move |(found, _)| *found >= key)
    }
}

/// The place of a size among the hints.
#[inline]
fn slot(size: u64) -> usize {
    ((size >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// How many blocks of a shelf lie below an address.
#[inline]
fn below(shelf: &[(u64, BlockId)], address: u64) -> usize {
    match shelf.last() {
        Some(&(lowest, _)) if lowest >= address => 0,
        _ => shelf.len() - shelf.partition_point(|(found, _)| *found >= address),
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
                    vacant.insert(BlockId::new(number as usize));
                    list.insert(key, BlockId::new(number as usize));
                }
            } else {
                assert_eq!(list.remove(&key), map.remove(&key));
            }
            if number % 5 == 0 {
                let fit = map.range((key.0, key.1, 0)..(key.0 + 1, 0, 0)).next().map(|(key, id)| (*key, *id));
                let fit = fit.filter(|(fit, _)| fit.1 < 20);
                assert_eq!(list.take_fit(key.0, key.1, |size| size < 20), fit.map(|(_, id)| id));
                fit.and_then(|(fit, _)| map.remove(&fit));
            }
            assert_eq!(list.get(key), map.get(&key).copied());
            if number % 97 == 0 {
                assert!(list.iter().eq(map.iter().map(|(key, id)| (*key, *id))));
                assert!(list.before(key).eq(map.range(..key).rev().map(|(key, id)| (*key, *id))));
                assert!(list.from(key).eq(map.range(key..).map(|(key, id)| (*key, *id))));
                assert!(list.racks.is_sorted_by_key(|rack| rack.stream));
                for rack in &list.racks {
                    assert!(rack.sizes.is_sorted() && rack.sizes.len() == rack.shelves.len());
                    assert_eq!(rack.empty, rack.shelves.iter().filter(|shelf| shelf.is_empty()).count());
                }
            }
        }
    }
}
