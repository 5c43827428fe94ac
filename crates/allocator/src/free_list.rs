//! Free blocks in best-fit order.
//!
//! Free blocks are kept in bins by size, eight bins to a power of two, sorted within each bin. A bitmap says which bins
//! have blocks. So best fit looks at one bin, and at the bitmap for the next larger one.

use crate::block::BlockId;

/// Best-fit order: by stream, then size, then address.
pub(crate) type SizeKey = (u64, u64, u64);

/// Each power of two has `1 << LOG2_BINS` bins.
const LOG2_BINS: u32 = 3;
/// Bins begin at blocks of `1 << LOG2_UNIT` bytes, the smallest block.
const LOG2_UNIT: u32 = 9;
/// How many bins there are: enough for every 64-bit size.
const BINS: usize = bin_of(u64::MAX) + 1;
const BITMAP_WORDS: usize = BINS.div_ceil(u64::BITS as usize);

/// Free blocks by [`SizeKey`].
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeList {
    /// Sorted by stream.
    streams: Vec<StreamBins>,
}

/// The free blocks of one stream.
#[derive(Clone, Debug)]
struct StreamBins {
    stream: u64,
    /// The blocks by [`bin_of`], each bin from the largest size and address down: its last block is the best fit.
    bins: Vec<Vec<FreeBlock>>,
    /// One bit a bin: whether it has blocks.
    occupied: [u64; BITMAP_WORDS],
}

/// A free block, by size and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeBlock {
    pub size: u64,
    address: u64,
    pub id: BlockId,
}

/// The position of a free block, valid until the list changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    stream: usize,
    bin: usize,
    index: usize,
}

impl FreeBlock {
    #[inline]
    fn rank(&self) -> u128 {
        rank(self.size, self.address)
    }
}

/// Size and address as one number, which compares without a branch.
#[inline]
fn rank(size: u64, address: u64) -> u128 {
    (u128::from(size) << 64) | u128::from(address)
}

impl StreamBins {
    fn new(stream: u64) -> StreamBins {
        StreamBins { stream, bins: vec![Vec::new(); BINS], occupied: [0; BITMAP_WORDS] }
    }

    /// Adds a block to `bin`, the bin of its size.
    #[inline(always)]
    fn insert(&mut self, bin: usize, block: FreeBlock) {
        let blocks = &mut self.bins[bin];
        self.occupied[bin / 64] |= 1 << (bin % 64);
        match blocks.last() {
            Some(last) if last.rank() < block.rank() => {
                let index = blocks.partition_point(|found| found.rank() > block.rank());
                blocks.insert(index, block);
            }
            _ => blocks.push(block),
        }
    }

    /// Gives a block another size and address, and moves it to keep the order.
    #[inline(always)]
    fn change_at(&mut self, bin: usize, index: usize, size: u64, address: u64) {
        let new_bin = bin_of(size);
        let blocks = &mut self.bins[bin];
        let changed = FreeBlock { size, address, ..blocks[index] };
        if new_bin != bin {
            self.remove_at(bin, index);
            self.insert(new_bin, changed);
            return;
        }
        let mut index = index;
        while index > 0 && blocks[index - 1].rank() < changed.rank() {
            blocks[index] = blocks[index - 1];
            index -= 1;
        }
        while let Some(next) = blocks.get(index + 1)
            && next.rank() > changed.rank()
        {
            blocks[index] = *next;
            index += 1;
        }
        blocks[index] = changed;
    }

    #[inline]
    fn remove_at(&mut self, bin: usize, index: usize) {
        let blocks = &mut self.bins[bin];
        if index + 1 == blocks.len() {
            blocks.pop();
        } else {
            blocks.remove(index);
        }
        if blocks.is_empty() {
            self.occupied[bin / 64] &= !(1 << (bin % 64));
        }
    }

    /// Bin and index of the smallest block of at least `size` bytes, the lowest address among equals.
    #[inline(always)]
    fn best_fit(&self, size: u64) -> Option<(usize, usize)> {
        let bin = bin_of(size);
        let blocks = &self.bins[bin];
        let fitting = match blocks.last() {
            Some(last) if last.size >= size => blocks.len(),
            Some(_) => blocks.partition_point(|found| found.size >= size),
            None => 0,
        };
        if fitting > 0 {
            return Some((bin, fitting - 1));
        }
        let larger = self.occupied_from(bin + 1)?;
        Some((larger, self.bins[larger].len().checked_sub(1)?))
    }

    /// The first bin from `first` on that has blocks.
    #[inline]
    fn occupied_from(&self, first: usize) -> Option<usize> {
        let mut word = first / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (first % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// Bin and index of the block with this size and address.
    #[inline]
    fn find(&self, size: u64, address: u64) -> Option<(usize, usize)> {
        let bin = bin_of(size);
        let blocks = &self.bins[bin];
        let last = blocks.len().checked_sub(1)?;
        let wanted = rank(size, address);
        if blocks[last].rank() == wanted {
            return Some((bin, last));
        }
        let index = blocks.partition_point(|found| found.rank() > wanted);
        blocks.get(index).filter(|found| found.rank() == wanted).map(|_| (bin, index))
    }

    /// The blocks from the bin of `size` on, in order.
    fn blocks_from(&self, size: u64) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        let blocks = self.bins[bin_of(size)..].iter().flat_map(|bin| bin.iter().rev());
        blocks.map(|block| ((self.stream, block.size, block.address), block.id))
    }
}

impl FreeList {
    /// The index of the first stream that is not below `stream`.
    #[inline]
    fn stream_index(&self, stream: u64) -> usize {
        match self.streams.first() {
            // Nearly always the only one.
            Some(first) if first.stream == stream => 0,
            _ => self.streams.partition_point(|bins| bins.stream < stream),
        }
    }

    #[inline]
    fn stream_bins(&mut self, stream: u64) -> Option<&mut StreamBins> {
        let index = self.stream_index(stream);
        self.streams.get_mut(index).filter(|bins| bins.stream == stream)
    }

    #[inline]
    pub fn insert(&mut self, (stream, size, address): SizeKey, id: BlockId) {
        let index = self.stream_index(stream);
        if self.streams.get(index).is_none_or(|found| found.stream != stream) {
            self.streams.insert(index, StreamBins::new(stream));
        }
        self.streams[index].insert(bin_of(size), FreeBlock { size, address, id });
    }

    /// The best fit for `size` bytes on `stream`.
    #[inline(always)]
    pub fn best_fit(&self, stream: u64, size: u64) -> Option<(Slot, FreeBlock)> {
        let index = self.stream_index(stream);
        let bins = self.streams.get(index).filter(|bins| bins.stream == stream)?;
        let (bin, position) = bins.best_fit(size)?;
        Some((Slot { stream: index, bin, index: position }, bins.bins[bin][position]))
    }

    #[inline]
    pub fn remove_at(&mut self, slot: Slot) {
        self.streams[slot.stream].remove_at(slot.bin, slot.index);
    }

    /// Gives the block at `slot` another size and address.
    #[inline(always)]
    pub fn change_at(&mut self, slot: Slot, size: u64, address: u64) {
        self.streams[slot.stream].change_at(slot.bin, slot.index, size, address);
    }

    /// Gives the block with this key another size and address.
    #[inline]
    pub fn change(&mut self, key: SizeKey, size: u64, address: u64) {
        if let Some(bins) = self.stream_bins(key.0)
            && let Some((bin, index)) = bins.find(key.1, key.2)
        {
            bins.change_at(bin, index, size, address);
        }
    }

    #[inline]
    pub fn remove(&mut self, key: &SizeKey) -> Option<BlockId> {
        let (stream, size, address) = *key;
        let bins = self.stream_bins(stream)?;
        let (bin, index) = bins.find(size, address)?;
        let id = bins.bins[bin][index].id;
        bins.remove_at(bin, index);
        Some(id)
    }

    /// The blocks from this key on, in order.
    pub fn from(&self, key: SizeKey) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        let (stream, size, _) = key;
        let first = self.stream_index(stream);
        let streams = self.streams[first..].iter();
        let blocks = streams.flat_map(move |bins| bins.blocks_from(if bins.stream == stream { size } else { 0 }));
        blocks.filter(move |(found, _)| *found >= key)
    }

    /// All blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (SizeKey, BlockId)> {
        self.from((0, 0, 0))
    }

    pub fn get(&self, key: SizeKey) -> Option<BlockId> {
        self.from(key).next().filter(|(found, _)| *found == key).map(|(_, id)| id)
    }

    /// The blocks before `key`, from the last on.
    pub fn before(&self, key: SizeKey) -> impl Iterator<Item = (SizeKey, BlockId)> {
        self.iter().rev().skip_while(move |(found, _)| *found >= key)
    }
}

/// The number of the bin for blocks of this size.
#[inline]
const fn bin_of(size: u64) -> usize {
    let units = size >> LOG2_UNIT;
    let octave = (units | (1 << LOG2_BINS)).ilog2() - LOG2_BINS;
    (octave << LOG2_BINS) as usize + (units >> octave) as usize
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
                let found = list.best_fit(key.0, key.1).filter(|(_, block)| block.size < 20_000);
                assert_eq!(found.map(|(_, block)| block.id), fit.map(|(_, id)| id));
                if let (Some((slot, _)), Some((fit, id))) = (found, fit) {
                    map.remove(&fit);
                    let other = (fit.0, fit.1 / 2 + (state >> 50) % 7, fit.2 + 1);
                    if number % 3 == 0 || map.contains_key(&other) {
                        list.remove_at(slot);
                    } else {
                        list.change_at(slot, other.1, other.2);
                        map.insert(other, id);
                    }
                }
            }
            if number % 7 == 0
                && let Some((&old, &id)) = map.range(key..).next()
            {
                let grown = (old.0, old.1 + (state >> 50) % 64, old.2 + 1);
                if !map.contains_key(&grown) {
                    map.remove(&old);
                    map.insert(grown, id);
                    list.change(old, grown.1, grown.2);
                }
            }
            assert_eq!(list.get(key), map.get(&key).copied());
            if number % 97 == 0 {
                assert!(list.iter().eq(map.iter().map(|(key, id)| (*key, *id))));
                assert!(list.before(key).eq(map.range(..key).rev().map(|(key, id)| (*key, *id))));
                assert!(list.from(key).eq(map.range(key..).map(|(key, id)| (*key, *id))));
                assert!(list.streams.is_sorted_by_key(|bins| bins.stream));
                for bins in &list.streams {
                    for (number, bin) in bins.bins.iter().enumerate() {
                        assert_eq!(bins.occupied[number / 64] >> (number % 64) & 1 == 1, !bin.is_empty());
                        assert!(bin.iter().all(|block| bin_of(block.size) == number));
                    }
                }
            }
        }
    }

    #[test]
    fn every_size_has_a_bin_and_larger_sizes_have_no_lower_one() {
        let sizes: Vec<u64> =
            (0..64).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + ((1 << power) >> 1)]).collect();
        for pair in sizes.windows(2) {
            assert!(bin_of(pair[0]) <= bin_of(pair[1]), "{pair:?}");
        }
        assert_eq!((bin_of(0), bin_of(511), bin_of(512), bin_of(4096)), (0, 0, 1, 8));
        for power in 12..63 {
            assert_eq!(bin_of(2 << power) - bin_of(1 << power), 8, "eight bins to a power of two");
        }
        let mut list = FreeList::default();
        list.insert((0, u64::MAX, 0), BlockId::new(0));
        let (slot, found) = list.best_fit(0, 512).unwrap();
        assert_eq!(found.size, u64::MAX);
        list.remove_at(slot);
        assert!(list.best_fit(0, 0).is_none());
    }
}
