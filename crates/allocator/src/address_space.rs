//! A process's address space, as far as CUDA takes from it.
//!
//! CUDA takes address space from the operating system in chunks of whole 32 MiB and puts a segment into the lowest hole
//! that holds it. Linux gives a new chunk the highest gap between mappings, so chunks come one below the other; a gap is
//! used only where 32 MiB more than the chunk are free in it. A chunk that is empty goes back and is a gap again. The
//! order of addresses decides which of two cached blocks of one size is taken first, and with it how long unsplit tails
//! are: `docs/cuda-addresses.md` tells how this was found.

/// Address space is taken in pieces of this size.
pub(crate) const CHUNK: u64 = 32 << 20;

/// A chunk, by its beginning.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    end: u64,
    free: u64,
}

/// Where there is room.
#[derive(Clone, Debug)]
pub(crate) struct AddressSpace {
    chunks: ByAddress<Chunk>,
    /// Free ranges of chunks.
    holes: ByAddress<u64>,
    /// Free ranges between mappings.
    gaps: ByAddress<u64>,
    lowest: u64,
    gives_back: bool,
}

impl AddressSpace {
    /// Nothing taken yet: chunks go below `highest`. Empty chunks go back to the operating system, or stay.
    pub fn new(highest: u64, gives_back: bool) -> AddressSpace {
        AddressSpace {
            chunks: ByAddress::new(),
            holes: ByAddress::new(),
            gaps: ByAddress::new(),
            lowest: highest,
            gives_back,
        }
    }

    /// A chunk of which only `holes` (begin, size) are free.
    pub fn add_chunk(&mut self, begin: u64, size: u64, holes: &[(u64, u64)]) {
        let free = holes.iter().map(|&(_, span)| span).sum();
        self.chunks.insert(begin, Chunk { end: begin + size, free });
        for &(address, span) in holes {
            self.holes.insert(address, span);
        }
        self.lowest = self.lowest.min(begin);
    }

    /// The operating system has this range to give, from now on.
    pub fn open_gap(&mut self, begin: u64, size: u64) {
        merge(&mut self.gaps, begin, size, (0, u64::MAX));
    }

    /// Tells of address space that is free to use: a recording shows that segments have lain there. What is known
    /// already stays as it is.
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
            self.chunks.insert(cursor, Chunk { end: next, free: 0 });
            self.free(cursor, next - cursor);
            cursor = next;
        }
        self.lowest = self.lowest.min(begin);
    }

    /// Address space for good, of which nothing is ever a hole.
    pub fn reserve(&mut self, span: u64) -> u64 {
        self.lowest = self.lowest.saturating_sub(span.next_multiple_of(CHUNK));
        self.chunks.insert(self.lowest, Chunk { end: self.lowest + span, free: 0 });
        self.lowest
    }

    /// Takes `span` bytes; none where there is no address below any more.
    pub fn place(&mut self, span: u64) -> Option<u64> {
        let address = match self.holes.0.iter_mut().position(|(_, size)| *size >= span) {
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

    /// Lets go of what was placed.
    pub fn free(&mut self, address: u64, span: u64) {
        let Some((begin, chunk)) = self.chunks.around(address) else { return };
        chunk.free += span;
        let Chunk { end, free } = *chunk;
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
        self.chunks.insert(begin, Chunk { end: begin + size, free: size });
        Some((begin, size))
    }
}

/// Something at addresses, in their order. There are few, so a list is quicker than a tree.
#[derive(Clone, Debug)]
struct ByAddress<Value>(Vec<(u64, Value)>);

impl<Value> ByAddress<Value> {
    fn new() -> ByAddress<Value> {
        ByAddress(Vec::new())
    }

    /// How many lie below an address.
    fn below(&self, address: u64) -> usize {
        self.0.partition_point(|(found, _)| *found < address)
    }

    /// Those that do not lie below an address.
    fn from(&self, address: u64) -> &[(u64, Value)] {
        &self.0[self.below(address)..]
    }

    /// The last that does not lie above an address.
    fn around(&mut self, address: u64) -> Option<(u64, &mut Value)> {
        let count = self.0.partition_point(|(found, _)| *found <= address);
        let (begin, value) = self.0.get_mut(count.checked_sub(1)?)?;
        Some((*begin, value))
    }

    /// Puts something at an address, in the place of what is there.
    fn insert(&mut self, address: u64, value: Value) {
        let at = self.below(address);
        match self.0.get_mut(at) {
            Some((found, there)) if *found == address => *there = value,
            _ => self.0.insert(at, (address, value)),
        }
    }

    fn remove(&mut self, address: u64) {
        self.remove_between(address, address.saturating_add(1));
    }

    fn remove_between(&mut self, begin: u64, end: u64) {
        let range = self.below(begin)..self.below(end);
        self.0.drain(range);
    }
}

/// Adds a range to ranges, joined with its neighbours within `bounds`.
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
    fn chunks_come_one_below_the_other_and_fill_from_below() {
        let mut space = AddressSpace::new(TOP, true);
        assert_eq!(space.place(20 * MIB), Some(TOP - 32 * MIB));
        assert_eq!(space.place(2 * MIB), Some(TOP - 12 * MIB));
        assert_eq!(space.place(20 * MIB), Some(TOP - 64 * MIB));
        assert_eq!(space.place(10 * MIB), Some(TOP - 44 * MIB));
        assert_eq!(space.place(74 * MIB), Some(TOP - 160 * MIB));
    }

    #[test]
    fn an_empty_chunk_goes_back_and_its_gap_is_used_from_above() {
        let mut space = AddressSpace::new(TOP, true);
        let first = space.place(120 * MIB);
        let second = space.place(20 * MIB);
        assert_eq!((first, second), (Some(TOP - 128 * MIB), Some(TOP - 160 * MIB)));
        space.free(TOP - 128 * MIB, 120 * MIB);
        assert_eq!(space.place(30 * MIB), Some(TOP - 32 * MIB));
    }

    #[test]
    fn a_chunk_with_something_in_it_stays_and_is_filled_from_below() {
        let mut space = AddressSpace::new(TOP, true);
        let chunk = TOP - 96 * MIB;
        assert_eq!((space.place(74 * MIB), space.place(2 * MIB)), (Some(chunk), Some(chunk + 74 * MIB)));
        space.free(chunk, 74 * MIB);
        assert_eq!((space.place(30 * MIB), space.place(20 * MIB)), (Some(chunk), Some(chunk + 30 * MIB)));
    }

    #[test]
    fn a_gap_must_have_a_chunk_to_spare() {
        let mut space = AddressSpace::new(TOP, true);
        space.open_gap(2 * TOP, 63 * MIB);
        assert_eq!(space.place(32 * MIB), Some(TOP - 32 * MIB));
        space.open_gap(2 * TOP + 63 * MIB, MIB);
        assert_eq!(space.place(32 * MIB), Some(2 * TOP + 32 * MIB));
    }

    #[test]
    fn holes_of_two_chunks_are_never_one() {
        let mut space = AddressSpace::new(TOP, true);
        let places: Vec<u64> = (0..4).filter_map(|_| space.place(16 * MIB)).collect();
        space.free(places[0], 16 * MIB);
        space.free(places[3], 16 * MIB);
        assert_eq!(space.place(32 * MIB), Some(TOP - 96 * MIB));
    }
}
