//! What was already in memory when the recording began.
//!
//! A recording may start late: history was enabled after the model was built, or the ring buffer lost its beginning.
//! Walking back from the final segments through the events gives the state before the first event.

use std::collections::BTreeMap;

use crate::snapshot::{Action, BlockState, Device, Event, PoolId, StackId};

/// The size of the small pool's segments; segments of the large pool are larger.
const SMALL_SEGMENT: u64 = 2 << 20;

/// Memory that was reserved when the recording began, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The segments, or mapped ranges of expandable ones.
    pub segments: Vec<StartSegment>,
}

/// A segment that existed before the first event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSegment {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Its stream.
    pub stream: u64,
    /// Its pool.
    pub pool: PoolId,
    /// Whether it belongs to the small pool.
    pub is_small: bool,
    /// Whether it is part of an expandable segment.
    pub is_expandable: bool,
    /// The active blocks in it, by address.
    pub blocks: Vec<StartBlock>,
}

/// A block that was active before the first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartBlock {
    /// Where it begins.
    pub address: u64,
    /// The bytes requested.
    pub requested: u64,
    /// Its bytes, known if it was still there at the end.
    pub size: Option<u64>,
    /// Whether the program had freed it and another stream still used it.
    pub is_pending: bool,
    /// The call stack of its allocation, or of its free if only that is known.
    pub stack: StackId,
}

impl Start {
    /// Bytes that were reserved.
    pub fn reserved(&self) -> u64 {
        self.segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.size))
    }

    /// Walks back from the end of `device`'s recording.
    pub fn of(device: &Device) -> Start {
        let mut ranges = Ranges::at_end(device);
        let mut active = active_at_end(device);
        for event in device.events.iter().rev() {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => ranges.remove(event),
                Action::SegmentFree | Action::SegmentUnmap => ranges.insert(event),
                Action::Alloc => {
                    active.remove(&event.address);
                }
                Action::FreeCompleted => {
                    active.insert(event.address, StartBlock { is_pending: true, ..block_of(event) });
                }
                Action::FreeRequested => {
                    active.entry(event.address).or_insert_with(|| block_of(event)).is_pending = false;
                }
                Action::Snapshot | Action::Oom => {}
            }
        }
        Start { segments: ranges.with_blocks(active) }
    }
}

fn block_of(event: &Event) -> StartBlock {
    StartBlock { address: event.address, requested: event.size, size: None, is_pending: false, stack: event.stack }
}

fn active_at_end(device: &Device) -> BTreeMap<u64, StartBlock> {
    let blocks = device.segments.iter().flat_map(|segment| &segment.blocks);
    blocks
        .filter(|block| block.state != BlockState::Free)
        .map(|block| {
            let start = StartBlock {
                address: block.address,
                requested: block.requested_size,
                size: Some(block.size),
                is_pending: block.state == BlockState::PendingFree,
                stack: block.stack,
            };
            (block.address, start)
        })
        .collect()
}

/// Reserved memory, by address.
struct Ranges(BTreeMap<u64, StartSegment>);

impl Ranges {
    fn at_end(device: &Device) -> Ranges {
        let ranges = device.segments.iter().map(|segment| {
            let range = StartSegment {
                address: segment.address,
                size: segment.total_size,
                stream: segment.stream,
                pool: segment.pool,
                is_small: segment.is_small,
                is_expandable: segment.is_expandable,
                blocks: Vec::new(),
            };
            (segment.address, range)
        });
        Ranges(ranges.collect())
    }

    /// The memory of `event` did not exist before it.
    fn remove(&mut self, event: &Event) {
        let Some((&begin, range)) = self.0.range(..=event.address).next_back() else { return };
        let end = begin.saturating_add(range.size);
        let gone_end = event.address.saturating_add(event.size);
        if event.address >= end || gone_end > end {
            return;
        }
        let range = range.clone();
        self.0.remove(&begin);
        if begin < event.address {
            self.0.insert(begin, StartSegment { size: event.address - begin, ..range.clone() });
        }
        if gone_end < end {
            self.0.insert(gone_end, StartSegment { address: gone_end, size: end - gone_end, ..range });
        }
    }

    /// The memory of `event` existed before it.
    fn insert(&mut self, event: &Event) {
        let is_expandable = event.action == Action::SegmentUnmap;
        let mut range = StartSegment {
            address: event.address,
            size: event.size,
            stream: event.stream,
            pool: event.pool,
            is_small: self.looks_small(event, is_expandable),
            is_expandable,
            blocks: Vec::new(),
        };
        if is_expandable {
            let joins = |other: &StartSegment| {
                other.is_expandable
                    && (other.stream, other.pool, other.is_small) == (range.stream, range.pool, range.is_small)
            };
            let before = self.0.range(..event.address).next_back().map(|(_, before)| before);
            let before = before.filter(|before| joins(before) && before.address + before.size == range.address);
            let after = self.0.get(&event.address.saturating_add(event.size)).filter(|after| joins(after));
            let (before, after) =
                (before.map(|range| (range.address, range.size)), after.map(|range| (range.address, range.size)));
            if let Some((address, size)) = after {
                self.0.remove(&address);
                range.size += size;
            }
            if let Some((address, size)) = before {
                self.0.remove(&address);
                range.address = address;
                range.size += size;
            }
        }
        self.0.insert(range.address, range);
    }

    /// Whether freed memory belonged to the small pool: by its size, or for pages by the range nearest to it.
    fn looks_small(&self, event: &Event, is_expandable: bool) -> bool {
        if !is_expandable {
            return event.size == SMALL_SEGMENT;
        }
        let before = self.0.range(..event.address).next_back();
        let after = self.0.range(event.address..).next();
        let nearest = before.into_iter().chain(after).map(|(_, range)| range).filter(|range| range.is_expandable);
        let nearest = nearest.min_by_key(|range| range.address.abs_diff(event.address));
        nearest.map_or(event.size < 10 * SMALL_SEGMENT, |range| range.is_small)
    }

    fn with_blocks(self, active: BTreeMap<u64, StartBlock>) -> Vec<StartSegment> {
        let mut segments: Vec<StartSegment> = self.0.into_values().collect();
        let mut current = 0;
        for block in active.into_values() {
            while current + 1 < segments.len() && segments[current + 1].address <= block.address {
                current += 1;
            }
            if let Some(segment) = segments.get_mut(current)
                && block.address >= segment.address
                && block.address - segment.address < segment.size
            {
                segment.blocks.push(block);
            }
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Block, Segment, StringId};

    fn event(action: Action, address: u64, size: u64) -> Event {
        let (stream, pool, stack, note) = (0, PoolId::DEFAULT, StackId::NONE, StringId(0));
        Event { action, address, size, stream, pool, time_us: 0, stack, note }
    }

    fn segment(address: u64, total_size: u64, blocks: &[(u64, u64, BlockState)]) -> Segment {
        let blocks = blocks.iter().map(|&(address, size, state)| Block {
            address,
            size,
            requested_size: size,
            state,
            stack: StackId::NONE,
        });
        Segment {
            address,
            total_size,
            stream: 0,
            is_small: total_size == SMALL_SEGMENT,
            is_expandable: false,
            pool: PoolId::DEFAULT,
            stack: StackId::NONE,
            blocks: blocks.collect(),
        }
    }

    #[test]
    fn a_recording_from_the_beginning_starts_with_nothing() {
        let mib = 1 << 20;
        let events = vec![event(Action::SegmentAlloc, 100 * mib, 2 * mib), event(Action::Alloc, 100 * mib, 512)];
        let blocks = [(100 * mib, 512, BlockState::Allocated), (100 * mib + 512, 2 * mib - 512, BlockState::Free)];
        let device = Device { events, segments: vec![segment(100 * mib, 2 * mib, &blocks)] };
        assert_eq!(Start::of(&device), Start::default());
    }

    #[test]
    fn a_late_recording_starts_with_what_it_frees_and_what_stays() {
        let mib = 1 << 20;
        let events = vec![event(Action::FreeRequested, 101 * mib, 700), event(Action::FreeCompleted, 101 * mib, 700)];
        let blocks = [(100 * mib, mib, BlockState::Allocated), (101 * mib, mib, BlockState::Free)];
        let device = Device { events, segments: vec![segment(100 * mib, 2 * mib, &blocks)] };
        let start = Start::of(&device);
        assert_eq!(start.segments.len(), 1);
        let [stays, goes] = start.segments[0].blocks[..] else { panic!("two blocks") };
        assert_eq!((stays.address, stays.size), (100 * mib, Some(mib)));
        assert_eq!((goes.address, goes.size, goes.requested, goes.is_pending), (101 * mib, None, 700, false));
    }

    #[test]
    fn a_completion_without_a_request_was_pending_at_the_start() {
        let mib = 1 << 20;
        let events = vec![event(Action::FreeCompleted, 100 * mib, 700)];
        let device =
            Device { events, segments: vec![segment(100 * mib, 2 * mib, &[(100 * mib, 2 * mib, BlockState::Free)])] };
        assert!(Start::of(&device).segments[0].blocks[0].is_pending);
    }

    const MIB: u64 = 1 << 20;

    /// Ranges of expandable segments at the end, as (address, size) in MiB.
    fn expandable(ranges: &[(u64, u64)]) -> Vec<Segment> {
        let range = |&(address, size)| Segment { is_expandable: true, ..segment(address * MIB, size * MIB, &[]) };
        ranges.iter().map(range).collect()
    }

    /// The ranges at the start, as (address, size) in MiB, after one event.
    fn ranges(segments: Vec<Segment>, action: Action, address: u64, size: u64) -> Vec<(u64, u64)> {
        let device = Device { events: vec![event(action, address * MIB, size * MIB)], segments };
        let start = Start::of(&device);
        start.segments.iter().map(|segment| (segment.address / MIB, segment.size / MIB)).collect()
    }

    #[test]
    fn mapped_pages_were_not_there_and_leave_what_is_around_them() {
        let map = |address, size| ranges(expandable(&[(100, 60)]), Action::SegmentMap, address, size);
        assert_eq!(map(100, 60), []);
        assert_eq!(map(100, 20), [(120, 40)]);
        assert_eq!(map(120, 20), [(100, 20), (140, 20)]);
        assert_eq!(map(140, 20), [(100, 40)]);
        assert_eq!(map(140, 40), [(100, 60)], "more than there is");
        assert_eq!(map(160, 20), [(100, 60)], "behind it");
        assert_eq!(map(80, 20), [(100, 60)], "before it");
    }

    #[test]
    fn unmapped_pages_join_the_ranges_beside_them() {
        let unmap = |address| ranges(expandable(&[(100, 20), (140, 20)]), Action::SegmentUnmap, address, 20);
        assert_eq!(unmap(120), [(100, 60)]);
        assert_eq!(unmap(80), [(80, 40), (140, 20)]);
        assert_eq!(unmap(160), [(100, 20), (140, 40)]);
        assert_eq!(unmap(200), [(100, 20), (140, 20), (200, 20)]);
        let plain = vec![segment(100 * MIB, 20 * MIB, &[])];
        assert_eq!(ranges(plain, Action::SegmentUnmap, 120, 20), [(100, 20), (120, 20)], "a segment of cudaMalloc");
        let mut other = expandable(&[(100, 20)]);
        other[0].stream = 7;
        assert_eq!(ranges(other, Action::SegmentUnmap, 120, 20), [(100, 20), (120, 20)], "another stream");
    }

    #[test]
    fn freed_memory_is_small_by_its_size_and_pages_by_what_is_nearest() {
        let is_small = |segments, action, address, size| {
            let device = Device { events: vec![event(action, address * MIB, size * MIB)], segments };
            let found = Start::of(&device)
                .segments
                .into_iter()
                .find(|segment| (segment.address..segment.address + segment.size).contains(&(address * MIB)));
            found.unwrap().is_small
        };
        assert!(is_small(vec![], Action::SegmentFree, 100, 2));
        assert!(!is_small(vec![], Action::SegmentFree, 100, 20));
        assert!(is_small(vec![], Action::SegmentUnmap, 100, 18));
        assert!(!is_small(vec![], Action::SegmentUnmap, 100, 20));
        let mixed = || expandable(&[(100, 20), (200, 2)]);
        assert!(!is_small(mixed(), Action::SegmentUnmap, 140, 4));
        assert!(is_small(mixed(), Action::SegmentUnmap, 180, 4));
        let plain = || vec![segment(100 * MIB, 20 * MIB, &[])];
        assert!(is_small(plain(), Action::SegmentUnmap, 140, 4), "segments of cudaMalloc say nothing");
    }

    #[test]
    fn blocks_are_in_the_segment_that_has_their_address() {
        let mib = |address| event(Action::FreeCompleted, address * MIB, 512);
        let segments = vec![segment(100 * MIB, 20 * MIB, &[]), segment(140 * MIB, 20 * MIB, &[])];
        let device = Device { events: [90, 100, 119, 120, 140, 160].map(mib).to_vec(), segments };
        let start = Start::of(&device);
        let addresses = |segment: &StartSegment| segment.blocks.iter().map(|block| block.address / MIB).collect();
        let found: Vec<Vec<u64>> = start.segments.iter().map(addresses).collect();
        assert_eq!(found, [vec![100, 119], vec![140]]);
        assert_eq!(start.reserved(), 40 * MIB);
    }
}
