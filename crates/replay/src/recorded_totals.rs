//! The peaks of a recording, from the recording alone.
//!
//! Nothing here looks for a block: the recorded addresses say where every allocation went. An event has the requested
//! bytes and not the block's, so the block's size follows from the free range it was put into and from PyTorch's rule
//! for splitting a block.

use std::collections::BTreeMap;

use vramfit_allocator::Settings;
use vramfit_allocator::size::{SMALL_REQUEST, block_size, should_split};
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::Start;

use crate::initial_layout::{Piece, pieces};
use crate::totals::Totals;

/// The numbers of a recording.
pub(crate) fn recorded_totals(device: &Device, settings: &Settings, start: &Start) -> Totals {
    let mut walk = Walk::new(device, settings, start);
    for event in &device.events {
        match event.action {
            Action::Alloc => walk.allocate(event.address, walk.size_at(event.address, event.size, settings)),
            Action::FreeRequested => walk.free(event.address),
            Action::FreeCompleted => drop(walk.blocks.remove(&event.address)),
            Action::SegmentAlloc => drop(walk.segments.insert(event.address, end(event.address, event.size))),
            Action::SegmentFree => drop(walk.segments.remove(&event.address)),
            Action::SegmentMap | Action::SegmentUnmap | Action::Snapshot | Action::Oom => {}
        }
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => walk.reserved = walk.reserved.saturating_add(event.size),
            Action::SegmentFree | Action::SegmentUnmap => walk.reserved = walk.reserved.saturating_sub(event.size),
            _ => {}
        }
        walk.peak_reserved = walk.peak_reserved.max(walk.reserved);
    }
    Totals {
        peak_allocated: walk.peak_allocated,
        peak_reserved: walk.peak_reserved,
        segments: device.segments.len() as u64,
    }
}

/// A block that the program holds, or that another stream still uses.
struct ActiveBlock {
    size: u64,
    is_held: bool,
}

/// What the events up to now have left.
struct Walk {
    /// Segments of `cudaMalloc`, from begin to end.
    segments: BTreeMap<u64, u64>,
    /// Active blocks by address.
    blocks: BTreeMap<u64, ActiveBlock>,
    allocated: u64,
    peak_allocated: u64,
    reserved: u64,
    peak_reserved: u64,
}

impl Walk {
    fn new(device: &Device, settings: &Settings, start: &Start) -> Walk {
        let reserved = start.reserved();
        let mut walk = Walk {
            segments: BTreeMap::new(),
            blocks: BTreeMap::new(),
            allocated: 0,
            peak_allocated: 0,
            reserved,
            peak_reserved: reserved,
        };
        for (segment, pieces) in start.segments.iter().zip(pieces(settings, device, start)) {
            if !segment.is_expandable {
                walk.segments.insert(segment.address, end(segment.address, segment.size));
            }
            for Piece { size, block } in pieces {
                let Some(block) = block else { continue };
                walk.allocate(block.address, size);
                if block.is_pending {
                    walk.free(block.address);
                }
            }
        }
        walk.peak_allocated = walk.allocated;
        walk
    }

    /// The size of the block that was recorded at `address` for a request of this size.
    fn size_at(&self, address: u64, requested: u64, settings: &Settings) -> u64 {
        let rounded = block_size(requested, settings);
        let segment = self.segments.range(..=address).next_back().filter(|&(_, &end)| address < end);
        let Some((_, &segment_end)) = segment else { return rounded };
        let next_block = self.blocks.range(address.saturating_add(1)..).next().map_or(segment_end, |(&next, _)| next);
        let free = next_block.min(segment_end) - address;
        let is_small = rounded <= SMALL_REQUEST;
        if free > rounded && !should_split(settings, is_small, free, rounded) { free } else { rounded }
    }

    fn allocate(&mut self, address: u64, size: u64) {
        self.free(address);
        self.blocks.insert(address, ActiveBlock { size, is_held: true });
        self.allocated = self.allocated.saturating_add(size);
        self.peak_allocated = self.peak_allocated.max(self.allocated);
    }

    /// The program frees a block. It stays active until its free completes.
    fn free(&mut self, address: u64) {
        if let Some(block) = self.blocks.get_mut(&address).filter(|block| block.is_held) {
            block.is_held = false;
            self.allocated -= block.size;
        }
    }
}

fn end(address: u64, size: u64) -> u64 {
    address.saturating_add(size)
}

#[cfg(test)]
mod tests {
    use vramfit_trace::snapshot::{Event, PoolId, StackId, StringId};

    use super::*;
    use crate::replay_recorded;

    const MIB: u64 = 1 << 20;

    fn device(rows: &[(Action, u64, u64)]) -> Device {
        let (stream, pool, stack, note) = (0, PoolId::DEFAULT, StackId::NONE, StringId(0));
        let event = |&(action, address, size): &(Action, u64, u64)| Event {
            action,
            address: address * MIB,
            size,
            stream,
            pool,
            time_us: 0,
            stack,
            note,
        };
        Device { events: rows.iter().map(event).collect(), segments: Vec::new() }
    }

    fn totals(device: &Device) -> Totals {
        recorded_totals(device, &Settings::default(), &Start::default())
    }

    /// Two cached segments, 22 MiB at 100 MiB and 23 MiB at 200 MiB.
    const TWO_CACHED_SEGMENTS: [(Action, u64, u64); 8] = [
        (Action::SegmentAlloc, 100, 22 * MIB),
        (Action::Alloc, 100, 22 * MIB),
        (Action::FreeRequested, 100, 22 * MIB),
        (Action::FreeCompleted, 100, 22 * MIB),
        (Action::SegmentAlloc, 200, 23 * MIB),
        (Action::Alloc, 200, 23 * MIB),
        (Action::FreeRequested, 200, 23 * MIB),
        (Action::FreeCompleted, 200, 23 * MIB),
    ];

    #[test]
    fn the_recorded_peak_follows_the_recorded_addresses_where_the_replay_goes_elsewhere() {
        // Best fit would take the segment of 22 MiB; this recording took the other one, whose tail of 1 MiB stays on.
        let device = device(
            &[&TWO_CACHED_SEGMENTS[..], &[(Action::Alloc, 200, 22 * MIB), (Action::Alloc, 100, 5 * MIB)]].concat(),
        );
        let replay = replay_recorded(&device, &Settings::default());
        assert!(replay.mismatches > 0);
        assert_eq!(replay.recorded.peak_allocated, 28 * MIB);
        assert_eq!(replay.replayed.peak_allocated, 27 * MIB);
    }

    #[test]
    fn a_tail_of_up_to_one_mebibyte_counts_and_a_longer_one_does_not() {
        let tail = [(Action::SegmentAlloc, 100, 12 * MIB), (Action::Alloc, 100, 11 * MIB)];
        assert_eq!(totals(&device(&tail)).peak_allocated, 12 * MIB);
        let split = [(Action::SegmentAlloc, 100, 20 * MIB), (Action::Alloc, 100, 5 * MIB)];
        assert_eq!(totals(&device(&split)).peak_allocated, 5 * MIB);
    }

    #[test]
    fn a_tail_ends_at_the_next_block_also_while_that_waits_for_its_free() {
        let rows = [
            (Action::SegmentAlloc, 100, 20 * MIB),
            (Action::Alloc, 100, 6 * MIB),
            (Action::Alloc, 106, 7 * MIB),
            (Action::FreeRequested, 106, 7 * MIB),
            (Action::FreeRequested, 100, 6 * MIB),
            (Action::FreeCompleted, 100, 6 * MIB),
            (Action::Alloc, 100, 5 * MIB + 512),
        ];
        assert_eq!(totals(&device(&rows)).peak_allocated, 13 * MIB);
        let walk = [&rows[..], &[(Action::Alloc, 113, 7 * MIB), (Action::Alloc, 300, 2 * MIB)]].concat();
        assert_eq!(totals(&device(&walk)).peak_allocated, 15 * MIB);
    }

    #[test]
    fn reserved_bytes_come_from_segment_events() {
        let rows = [
            (Action::SegmentAlloc, 100, 20 * MIB),
            (Action::SegmentMap, 200, 40 * MIB),
            (Action::SegmentFree, 100, 20 * MIB),
            (Action::SegmentUnmap, 200, 20 * MIB),
            (Action::SegmentAlloc, 100, 30 * MIB),
        ];
        assert_eq!(totals(&device(&rows)).peak_reserved, 60 * MIB);
    }
}
