//! Cached blocks in best fit's order.
//!
//! Blocks lie on shelves, eight to an octave of sizes, in order on each; a bit for each shelf says whether anything lies
//! there. So best fit is one look at the shelf of the size asked for, and one at the bits of those above.

use crate::block::BlockId;

/// Best fit's order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// How many shelves an octave of sizes has, as a power of two.
const STEPS: u32 = 3;
/// How many shelves there are: every size has one.
const SHELVES: usize = ((u64::BITS - PIECE - STEPS + 1) << STEPS) as usize;
/// Sizes are told apart from 512 bytes on, which is a power of two.
const PIECE: u32 = 9;
const WORDS: usize = SHELVES.div_ceil(u64::BITS as usize);

/// Cached blocks by [`SizeKey`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// In the order of their streams.
    racks: Vec<Rack>,
}

/// The cached blocks of one stream.
#[derive(Clone, Debug)]
struct Rack {
    stream: u64,
    /// The blocks by [`shelf_of`], each shelf from the largest size and address down: its last is the next to be taken.
    shelves: Vec<Vec<Piece>>,
    /// Which shelves have blocks, a bit each.
    filled: [u64; WORDS],
}

/// A cached block, by size and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub size: u64,
    address: u64,
    pub id: BlockId,
}

/// Where a cached block lies, until anything changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    rack: usize,
    shelf: usize,
    at: usize,
}

impl Piece {
    /// Its place in the order, by size, then address.
    #[inline]
    fn rank(&self) -> u128 {
        rank(self.size, self.address)
    }
}

/// Size and address as one number: it is compared without a branch.
#[inline]
fn rank(size: u64, address: u64) -> u128 {
    (u128::from(size) << 64) | u128::from(address)
}

impl Rack {
    fn new(stream: u64) -> Rack {
        Rack { stream, shelves: vec![Vec::new(); SHELVES], filled: [0; WORDS] }
    }

    /// Adds a block to the shelf of its size.
    #[inline(always)]
    fn insert(&mut self, number: usize, piece: Piece) {
        let shelf = &mut self.shelves[number];
        self.filled[number / 64] |= 1 << (number % 64);
        match shelf.last() {
            Some(last) if last.rank() < piece.rank() => {
                let at = shelf.partition_point(|found| found.rank() > piece.rank());
                shelf.insert(at, piece);
            }
            _ => shelf.push(piece),
        }
    }

    /// What lies at a place of a shelf has another size and address from now on; it moves where its order asks for it.
    #[inline(always)]
    fn change_at(&mut self, number: usize, at: usize, size: u64, address: u64) {
        let wanted = shelf_of(size);
        let shelf = &mut self.shelves[number];
        let changed = Piece { size, address, ..shelf[at] };
        if wanted != number {
            self.remove_at(number, at);
            self.insert(wanted, changed);
            return;
        }
        let mut at = at;
        while at > 0 && shelf[at - 1].rank() < changed.rank() {
            shelf[at] = shelf[at - 1];
            at -= 1;
        }
        while let Some(next) = shelf.get(at + 1)
            && next.rank() > changed.rank()
        {
            shelf[at] = *next;
            at += 1;
        }
        shelf[at] = changed;
    }

    /// Takes out what lies at a place of a shelf.
    #[inline]
    fn remove_at(&mut self, number: usize, at: usize) {
        let shelf = &mut self.shelves[number];
        if at + 1 == shelf.len() {
            shelf.pop();
        } else {
            shelf.remove(at);
        }
        if shelf.is_empty() {
            self.filled[number / 64] &= !(1 << (number % 64));
        }
    }

    /// The shelf and the place on it of the smallest block that is not smaller, of these the one with the lowest address.
    #[inline(always)]
    fn best_fit(&self, size: u64) -> Option<(usize, usize)> {
        let first = shelf_of(size);
        let shelf = &self.shelves[first];
        let fitting = match shelf.last() {
            Some(last) if last.size >= size => shelf.len(),
            Some(_) => shelf.partition_point(|found| found.size >= size),
            None => 0,
        };
        if fitting > 0 {
            return Some((first, fitting - 1));
        }
        let number = self.filled_from(first + 1)?;
        Some((number, self.shelves[number].len().checked_sub(1)?))
    }

    /// The first shelf with blocks from this one on.
    #[inline]
    fn filled_from(&self, first: usize) -> Option<usize> {
        let mut word = first / 64;
        let mut bits = self.filled.get(word)? & (u64::MAX << (first % 64));
        while bits == 0 {
            word += 1;
            bits = *self.filled.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// The place of the block with this size and address, and its shelf.
    #[inline]
    fn find(&self, size: u64, address: u64) -> Option<(usize, usize)> {
        let number = shelf_of(size);
        let shelf = &self.shelves[number];
        let last = shelf.len().checked_sub(1)?;
        let wanted = rank(size, address);
        if shelf[last].rank() == wanted {
            return Some((number, last));
        }
        let at = shelf.partition_point(|found| found.rank() > wanted);
        shelf.get(at).filter(|found| found.rank() == wanted).map(|_| (number, at))
    }

    /// The blocks from the shelf of a size on.
    fn shelves_from(&self, size: u64) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        let pieces = self.shelves[shelf_of(size)..].iter().flat_map(|shelf| shelf.iter().rev());
        pieces.map(|piece| ((self.stream, piece.size, piece.address), piece.id))
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

    #[inline]
    fn rack(&mut self, stream: u64) -> Option<&mut Rack> {
        let index = self.rack_from(stream);
        self.racks.get_mut(index).filter(|rack| rack.stream == stream)
    }

    /// Adds a block.
    #[inline]
    pub fn insert(&mut self, (stream, size, address): SizeKey, id: BlockId) {
        let rack = self.rack_from(stream);
        if self.racks.get(rack).is_none_or(|found| found.stream != stream) {
            self.racks.insert(rack, Rack::new(stream));
        }
        self.racks[rack].insert(shelf_of(size), Piece { size, address, id });
    }

    /// The first block of a stream that is not smaller.
    #[inline(always)]
    pub fn fit(&self, stream: u64, size: u64) -> Option<(Place, Piece)> {
        let index = self.rack_from(stream);
        let rack = self.racks.get(index).filter(|rack| rack.stream == stream)?;
        let (shelf, at) = rack.best_fit(size)?;
        Some((Place { rack: index, shelf, at }, rack.shelves[shelf][at]))
    }

    /// Takes out what lies at a place.
    #[inline]
    pub fn remove_at(&mut self, place: Place) {
        self.racks[place.rack].remove_at(place.shelf, place.at);
    }

    /// The block at a place has another size and address from now on.
    #[inline(always)]
    pub fn change_at(&mut self, place: Place, size: u64, address: u64) {
        self.racks[place.rack].change_at(place.shelf, place.at, size, address);
    }

    /// The block with this key has another size and address from now on.
    #[inline]
    pub fn change(&mut self, key: SizeKey, size: u64, address: u64) {
        if let Some(rack) = self.rack(key.0)
            && let Some((number, at)) = rack.find(key.1, key.2)
        {
            rack.change_at(number, at, size, address);
        }
    }

    /// Takes the block with this key out.
    #[inline]
    pub fn remove(&mut self, key: &SizeKey) -> Option<BlockId> {
        let (stream, size, address) = *key;
        let rack = self.rack(stream)?;
        let (number, at) = rack.find(size, address)?;
        let id = rack.shelves[number][at].id;
        rack.remove_at(number, at);
        Some(id)
    }

    /// The blocks from this key on, in order.
    pub fn from(&self, key: SizeKey) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        let (stream, size, _) = key;
        let first = self.rack_from(stream);
        let racks = self.racks[first..].iter();
        let blocks = racks.flat_map(move |rack| rack.shelves_from(if rack.stream == stream { size } else { 0 }));
        blocks.filter(move |(found, _)| *found >= key)
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

/// The number of a size's shelf: a step of an eighth of an octave each, from pieces of 512 bytes on.
#[inline]
fn shelf_of(size: u64) -> usize {
    let pieces = size >> PIECE;
    let octave = (pieces | (1 << STEPS)).ilog2() - STEPS;
    (u64::from(octave << STEPS) + (pieces >> octave)) as usize
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
            let key = (state >> 62, ((state >> 40) % 23) << ((state >> 20) % 12), (state >> 33) % 97);
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
                let fit = fit.filter(|(fit, _)| fit.1 < 20_000);
                let found = list.fit(key.0, key.1).filter(|(_, piece)| piece.size < 20_000);
                assert_eq!(found.map(|(_, piece)| piece.id), fit.map(|(_, id)| id));
                if let (Some((place, _)), Some((fit, id))) = (found, fit) {
                    map.remove(&fit);
                    let other = (fit.0, fit.1 / 2 + (state >> 50) % 7, fit.2 + 1);
                    if number % 3 == 0 || map.contains_key(&other) {
                        list.remove_at(place);
                    } else {
                        list.change_at(place, other.1, other.2);
                        map.insert(other, id);
                    }
                }
            }
            assert_eq!(list.get(key), map.get(&key).copied());
            if number % 97 == 0 {
                assert!(list.iter().eq(map.iter().map(|(key, id)| (*key, *id))));
                assert!(list.before(key).eq(map.range(..key).rev().map(|(key, id)| (*key, *id))));
                assert!(list.from(key).eq(map.range(key..).map(|(key, id)| (*key, *id))));
                assert!(list.racks.is_sorted_by_key(|rack| rack.stream));
                for rack in &list.racks {
                    for (number, shelf) in rack.shelves.iter().enumerate() {
                        assert_eq!(rack.filled[number / 64] >> (number % 64) & 1 == 1, !shelf.is_empty());
                        assert!(shelf.iter().all(|piece| shelf_of(piece.size) == number));
                    }
                }
            }
        }
    }
}
