//! The part of a process's address space that CUDA uses.
//!
//! CUDA reserves address space in chunks of whole 32 MiB and puts a segment into the newest chunk with a hole that holds
//! it, there into the lowest one. Linux places a new chunk in the highest gap between mappings, so most chunks are below the
//! one before; a gap is used only if it is 32 MiB larger than the chunk. An empty chunk is returned and becomes a gap again. The order of addresses
//! decides which of two free blocks of one size is used first, and so how long unsplit tails are;
//! `docs/cuda-addresses.md` describes how this was found.

/// CUDA reserves address space in multiples of this.
pub(crate) const CHUNK: u64 = 32 << 20;

/// Address space that CUDA has reserved.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    end: u64,
    free: u64,
    /// How many chunks are older.
    number: u64,
}

/// Chunks, the holes in them, and the gaps between them.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    chunks: ByAddress<Chunk>,
    /// Free ranges of chunks.
    holes: ByAddress<u64>,
    /// Free ranges between mappings.
    gaps: ByAddress<u64>,
    lowest: u64,
    /// How many chunks there have been.
    count: u64,
    gives_back: bool,
}

impl AddressSpace {
    /// No chunk yet: chunks are placed below `highest`. `gives_back` says whether empty chunks are returned.
    pub fn new(highest: u64, gives_back: bool) -> AddressSpace {
        AddressSpace {
            chunks: ByAddress::new(),
            holes: ByAddress::new(),
            gaps: ByAddress::new(),
            lowest: highest,
            count: 0,
            gives_back,
        }
    }

    /// Adds a chunk of which only `holes` (address, size) are free.
    pub fn add_chunk(&mut self, begin: u64, size: u64, holes: &[(u64, u64)]) {
        let free = holes.iter().map(|&(_, span)| span).sum();
        self.insert_chunk(begin, begin + size, free);
        for &(address, span) in holes {
            self.holes.insert(address, span);
        }
        self.lowest = self.lowest.min(begin);
    }

    /// Makes a range available to new chunks.
    pub fn open_gap(&mut self, begin: u64, size: u64) {
        merge(&mut self.gaps, begin, size, (0, u64::MAX));
    }

    /// Adds free address space. Chunks that are known already do not change.
    pub fn reveal(&mut self, begin: u64, end: u64) {
        if self.chunks.0.is_empty() {
            self.lowest = begin;
        }
        let mut cursor = begin;
        while cursor < end {
            let around = self.chunks.around(cursor).map(|(_, chunk)| chunk.end);
            if let Some(known_end) = around.filter(|&known_end| known_end > cursor) {
                cursor = known_end;
                continue;
            }
            let next = self.chunks.from(cursor).first().map_or(end, |&(next, _)| next.min(end));
            self.insert_chunk(cursor, next, 0);
            self.free(cursor, next - cursor);
            cursor = next;
        }
        self.lowest = self.lowest.min(begin);
    }

    /// Reserves address space for an expandable segment. It is never returned.
    pub fn reserve(&mut self, span: u64) -> u64 {
        self.lowest = self.lowest.saturating_sub(span.next_multiple_of(CHUNK));
        self.insert_chunk(self.lowest, self.lowest + span, 0);
        self.lowest
    }

    /// Takes `span` bytes; `None` if the address space is exhausted.
    pub fn place(&mut self, span: u64) -> Option<u64> {
        let address = match self.hole_for(span) {
            Some(at) => {
                let (begin, size) = &mut self.holes.0[at];
                let address = *begin;
                if *size > span {
                    *begin += span;
                    *size -= span;
                } else {
                    self.holes.0.remove(at);
                }
                address
            }
            None => {
                let (address, size) = self.new_chunk(span.checked_next_multiple_of(CHUNK)?)?;
                if size > span {
                    self.holes.insert(address + span, size - span);
                }
                address
            }
        };
        if let Some((_, chunk)) = self.chunks.around(address) {
            chunk.free = chunk.free.saturating_sub(span);
        }
        Some(address)
    }

    /// Frees what was placed.
    pub fn free(&mut self, address: u64, span: u64) {
        let Some((begin, chunk)) = self.chunks.around(address) else { return };
        chunk.free += span;
        let Chunk { end, free, .. } = *chunk;
        if !self.gives_back {
            merge(&mut self.holes, address, span, (0, u64::MAX));
        } else if free == end - begin {
            self.chunks.remove(begin);
            self.holes.remove_between(begin, end);
            self.open_gap(begin, end - begin);
        } else {
            merge(&mut self.holes, address, span, (begin, end));
        }
    }

    fn new_chunk(&mut self, size: u64) -> Option<(u64, u64)> {
        let gap = self.gaps.0.iter_mut().rev().find(|(_, room)| *room >= size.saturating_add(CHUNK));
        let begin = match gap {
            Some((gap, room)) => {
                *room -= size;
                *gap + *room
            }
            None => {
                self.lowest = (self.lowest / CHUNK * CHUNK).checked_sub(size)?;
                self.lowest
            }
        };
        self.insert_chunk(begin, begin + size, size);
        Some((begin, size))
    }

    fn insert_chunk(&mut self, begin: u64, end: u64, free: u64) {
        self.chunks.insert(begin, Chunk { end, free, number: self.count });
        self.count += 1;
    }

    /// Which hole takes `span` bytes: the lowest of the newest chunk. Where chunks are not given back they are one.
    fn hole_for(&self, span: u64) -> Option<usize> {
        let mut best: Option<(usize, u64)> = None;
        for (at, &(address, size)) in self.holes.0.iter().enumerate() {
            if size < span {
                continue;
            }
            if !self.gives_back {
                return Some(at);
            }
            let number = self.chunks.at_or_below(address).map_or(0, |chunk| chunk.number);
            if best.is_none_or(|(_, found)| number > found) {
                best = Some((at, number));
            }
        }
        best.map(|(at, _)| at)
    }
}

/// A map by address. It has few entries, so a sorted list is faster than a tree.
#[derive(Clone, Debug)]
struct ByAddress<Value>(Vec<(u64, Value)>);

impl<Value> ByAddress<Value> {
    fn new() -> ByAddress<Value> {
        ByAddress(Vec::new())
    }

    /// How many entries are below an address.
    fn below(&self, address: u64) -> usize {
        self.0.partition_point(|(found, _)| *found < address)
    }

    /// The entries at an address and above.
    fn from(&self, address: u64) -> &[(u64, Value)] {
        &self.0[self.below(address)..]
    }

    /// The value of the last entry at an address or below.
    fn at_or_below(&self, address: u64) -> Option<&Value> {
        let count = self.0.partition_point(|(found, _)| *found <= address);
        self.0.get(count.checked_sub(1)?).map(|(_, value)| value)
    }

    /// The last entry at an address or below.
    fn around(&mut self, address: u64) -> Option<(u64, &mut Value)> {
        let count = self.0.partition_point(|(found, _)| *found <= address);
        let (begin, value) = self.0.get_mut(count.checked_sub(1)?)?;
        Some((*begin, value))
    }

    fn insert(&mut self, address: u64, value: Value) {
        self.0.insert(self.below(address), (address, value));
    }

    fn remove(&mut self, address: u64) {
        self.remove_between(address, address.saturating_add(1));
    }

    fn remove_between(&mut self, begin: u64, end: u64) {
        let range = self.below(begin)..self.below(end);
        self.0.drain(range);
    }
}

/// Adds a range to ranges, merged with adjacent ranges within `bounds`.
fn merge(ranges: &mut ByAddress<u64>, address: u64, size: u64, bounds: (u64, u64)) {
    let after = ranges.below(address);
    let joins_after = ranges.0.get(after).is_some_and(|&(found, _)| found == address + size && found < bounds.1);
    let following = if joins_after { ranges.0[after].1 } else { 0 };
    let before = after.checked_sub(1).and_then(|before| ranges.0.get_mut(before));
    match before.filter(|(found, span)| *found >= bounds.0 && *found + *span == address) {
        Some((_, span)) => {
            *span += size + following;
            if joins_after {
                ranges.0.remove(after);
            }
        }
        None if joins_after => ranges.0[after] = (address, size + following),
        None => ranges.0.insert(after, (address, size)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const TOP: u64 = 1 << 40;

    #[test]
    fn each_chunk_is_below_the_one_before_and_fills_from_below() {
        let mut space = AddressSpace::new(TOP, true);
        assert_eq!(space.place(20 * MIB), Some(TOP - 32 * MIB));
        assert_eq!(space.place(2 * MIB), Some(TOP - 12 * MIB));
        assert_eq!(space.place(20 * MIB), Some(TOP - 64 * MIB));
        assert_eq!(space.place(10 * MIB), Some(TOP - 44 * MIB));
        assert_eq!(space.place(74 * MIB), Some(TOP - 160 * MIB));
    }

    #[test]
    fn an_empty_chunk_is_returned_and_its_gap_is_used_from_above() {
        let mut space = AddressSpace::new(TOP, true);
        let first = space.place(120 * MIB);
        let second = space.place(20 * MIB);
        assert_eq!((first, second), (Some(TOP - 128 * MIB), Some(TOP - 160 * MIB)));
        space.free(TOP - 128 * MIB, 120 * MIB);
        assert_eq!(space.place(30 * MIB), Some(TOP - 32 * MIB));
    }

    #[test]
    fn a_chunk_in_use_stays_and_is_filled_from_below() {
        let mut space = AddressSpace::new(TOP, true);
        let chunk = TOP - 96 * MIB;
        assert_eq!((space.place(74 * MIB), space.place(2 * MIB)), (Some(chunk), Some(chunk + 74 * MIB)));
        space.free(chunk, 74 * MIB);
        assert_eq!((space.place(30 * MIB), space.place(20 * MIB)), (Some(chunk), Some(chunk + 30 * MIB)));
    }

    #[test]
    fn a_gap_must_be_32_mib_larger_than_the_chunk() {
        let mut space = AddressSpace::new(TOP, true);
        space.open_gap(2 * TOP, 63 * MIB);
        assert_eq!(space.place(32 * MIB), Some(TOP - 32 * MIB));
        space.open_gap(2 * TOP + 63 * MIB, MIB);
        assert_eq!(space.place(32 * MIB), Some(2 * TOP + 32 * MIB));
    }

    #[test]
    fn the_newest_chunk_is_filled_first_wherever_it_is() {
        let mut space = AddressSpace::new(TOP, true);
        assert_eq!(space.place(20 * MIB), Some(TOP - 32 * MIB));
        space.open_gap(2 * TOP, 96 * MIB);
        assert_eq!(space.place(20 * MIB), Some(2 * TOP + 64 * MIB), "above the first");
        assert_eq!(space.place(2 * MIB), Some(2 * TOP + 84 * MIB));
        assert_eq!(space.place(12 * MIB), Some(TOP - 12 * MIB), "the newest has no room");
    }

    #[test]
    fn holes_of_two_chunks_are_never_merged() {
        let mut space = AddressSpace::new(TOP, true);
        let addresses: Vec<u64> = (0..4).filter_map(|_| space.place(16 * MIB)).collect();
        space.free(addresses[0], 16 * MIB);
        space.free(addresses[3], 16 * MIB);
        assert_eq!(space.place(32 * MIB), Some(TOP - 96 * MIB));
    }

    #[test]
    fn holes_are_merged_in_whatever_order_they_are_freed() {
        for order in [[1, 0], [0, 1]] {
            let mut space = AddressSpace::new(TOP, true);
            let addresses: Vec<u64> = (0..3).filter_map(|_| space.place(10 * MIB)).collect();
            for index in order {
                space.free(addresses[index], 10 * MIB);
            }
            assert_eq!(space.place(20 * MIB), Some(addresses[0]), "{order:?}");
        }
    }

    #[test]
    fn a_hole_that_is_filled_exactly_is_gone() {
        let mut space = AddressSpace::new(TOP, true);
        let addresses: Vec<u64> = (0..4).filter_map(|_| space.place(8 * MIB)).collect();
        space.free(addresses[1], 8 * MIB);
        assert_eq!(space.place(8 * MIB), Some(addresses[1]));
        space.free(addresses[2], 8 * MIB);
        space.free(addresses[3], 8 * MIB);
        assert_eq!(space.place(16 * MIB), Some(addresses[2]));
    }

    #[test]
    fn a_chunk_that_is_filled_exactly_has_no_hole() {
        let mut space = AddressSpace::new(TOP, false);
        let addresses: Vec<u64> = (0..2).filter_map(|_| space.place(16 * MIB)).collect();
        assert_eq!(space.place(32 * MIB), Some(TOP - 64 * MIB));
        space.free(addresses[0], 16 * MIB);
        space.free(addresses[1], 16 * MIB);
        assert_eq!(space.place(32 * MIB), Some(addresses[0]));
    }

    #[test]
    fn the_holes_of_a_returned_chunk_are_gone() {
        let mut space = AddressSpace::new(TOP, true);
        assert_eq!(space.place(20 * MIB), Some(TOP - 32 * MIB));
        space.free(TOP - 32 * MIB, 20 * MIB);
        assert_eq!(space.place(12 * MIB), Some(TOP - 64 * MIB));
    }

    #[test]
    fn a_chunk_across_two_returned_ones_is_one_chunk() {
        let mut space = AddressSpace::new(TOP, true);
        assert_eq!((space.place(32 * MIB), space.place(96 * MIB)), (Some(TOP - 32 * MIB), Some(TOP - 128 * MIB)));
        space.free(TOP - 32 * MIB, 32 * MIB);
        space.free(TOP - 128 * MIB, 96 * MIB);
        assert_eq!(space.place(65 * MIB), Some(TOP - 96 * MIB));
        assert_eq!(space.place(31 * MIB), Some(TOP - 31 * MIB));
        space.free(TOP - 31 * MIB, 31 * MIB);
        assert_eq!(space.place(31 * MIB), Some(TOP - 31 * MIB), "the chunk is still in use");
    }

    #[test]
    fn what_is_reserved_is_not_revealed() {
        let mut space = AddressSpace::new(TOP, false);
        assert_eq!(space.reserve(64 * MIB), TOP - 64 * MIB);
        space.reveal(TOP - 96 * MIB, TOP);
        assert_eq!(space.place(40 * MIB), Some(TOP - 160 * MIB));
        assert_eq!(space.place(32 * MIB), Some(TOP - 96 * MIB));
    }
}
