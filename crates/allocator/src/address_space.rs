//! A process's address space, as far as CUDA takes from it.
//!
//! CUDA takes address space from the operating system in chunks of whole 32 MiB and puts a segment into the lowest hole
//! that holds it. Linux gives a new chunk the highest gap between mappings, so chunks come one below the other; a gap is
//! used only where 32 MiB more than the chunk are free in it. A chunk that is empty goes back and is a gap again. The
//! order of addresses decides which of two cached blocks of one size is taken first, and with it how long unsplit tails
//! are: `docs/cuda-addresses.md` tells how this was found.

use std::collections::BTreeMap;

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
    chunks: BTreeMap<u64, Chunk>,
    holes: BTreeMap<u64, u64>,
    gaps: BTreeMap<u64, u64>,
    lowest: u64,
    gives_back: bool,
}

impl AddressSpace {
    /// Nothing taken yet: chunks go below `highest`. Empty chunks go back to the operating system, or stay.
    pub fn new(highest: u64, gives_back: bool) -> AddressSpace {
        AddressSpace {
            chunks: BTreeMap::new(),
            holes: BTreeMap::new(),
            gaps: BTreeMap::new(),
            lowest: highest,
            gives_back,
        }
    }

    /// A chunk of which only `holes` (begin, size) are free.
    pub fn add_chunk(&mut self, begin: u64, size: u64, holes: &[(u64, u64)]) {
        let free = holes.iter().map(|&(_, span)| span).sum();
        self.chunks.insert(begin, Chunk { end: begin + size, free });
        self.holes.extend(holes.iter().copied());
        self.lowest = self.lowest.min(begin);
    }

    /// The operating system has this range to give, from now on.
    pub fn open_gap(&mut self, begin: u64, size: u64) {
        merge(&mut self.gaps, begin, size, (0, u64::MAX));
    }

    /// Tells of address space that is free to use: a recording shows that segments have lain there. What is known
    /// already stays as it is.
    pub fn reveal(&mut self, begin: u64, end: u64) {
        if self.chunks.is_empty() {
            self.lowest = begin;
        }
        let mut cursor = begin;
        while cursor < end {
            let around = self.chunks.range(..=cursor).next_back().map(|(_, chunk)| chunk.end);
            if let Some(known_end) = around.filter(|&known_end| known_end > cursor) {
                cursor = known_end;
                continue;
            }
            let next = self.chunks.range(cursor..).next().map_or(end, |(&next, _)| next.min(end));
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
        let hole = self.holes.iter().find(|&(_, &size)| size >= span).map(|(&address, &size)| (address, size));
        let (address, size) = match hole {
            Some(hole) => hole,
            None => self.new_chunk(span.checked_next_multiple_of(CHUNK)?)?,
        };
        self.holes.remove(&address);
        if size > span {
            self.holes.insert(address + span, size - span);
        }
        if let Some((_, chunk)) = self.chunks.range_mut(..=address).next_back() {
            chunk.free = chunk.free.saturating_sub(span);
        }
        Some(address)
    }

    /// Lets go of what was placed.
    pub fn free(&mut self, address: u64, span: u64) {
        let Some((&begin, chunk)) = self.chunks.range_mut(..=address).next_back() else { return };
        chunk.free += span;
        let Chunk { end, free } = *chunk;
        if !self.gives_back {
            merge(&mut self.holes, address, span, (0, u64::MAX));
        } else if free == end - begin {
            self.chunks.remove(&begin);
            while let Some((&hole, _)) = self.holes.range(begin..end).next() {
                self.holes.remove(&hole);
            }
            self.open_gap(begin, end - begin);
        } else {
            merge(&mut self.holes, address, span, (begin, end));
        }
    }

    fn new_chunk(&mut self, size: u64) -> Option<(u64, u64)> {
        let gap = self.gaps.iter().rev().find(|&(_, &room)| room >= size.saturating_add(CHUNK));
        let begin = match gap.map(|(&begin, &room)| (begin, room)) {
            Some((gap, room)) => {
                self.gaps.insert(gap, room - size);
                gap + room - size
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

/// Adds a range to ranges, joined with its neighbours within `bounds`.
fn merge(ranges: &mut BTreeMap<u64, u64>, address: u64, size: u64, bounds: (u64, u64)) {
    let (mut begin, mut span) = (address, size);
    if let Some((&before, &before_span)) = ranges.range(bounds.0..begin).next_back()
        && before + before_span == begin
    {
        ranges.remove(&before);
        begin = before;
        span += before_span;
    }
    if begin + span < bounds.1
        && let Some(after_span) = ranges.remove(&(begin + span))
    {
        span += after_span;
    }
    ranges.insert(begin, span);
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
