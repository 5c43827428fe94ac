//! Segments that are partly free: which blocks keep them from being released or used as a whole.

use std::collections::HashMap;

use vramfit_allocator::{BlockUse, Segment};
use vramfit_trace::snapshot::FrameId;

use super::Evidence;
use crate::history::OUTSIDE;
use crate::roles::Role;

/// Memory reserved but not held, at one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pinned {
    /// Free bytes in segments that live blocks share.
    pub free: u64,
    /// How many such segments there are.
    pub segments: u64,
    /// Bytes of the live blocks in them.
    pub live: u64,
    /// Bytes of segments that are wholly free: the cache.
    pub cached: u64,
    /// Free blocks in all.
    pub holes: u64,
    /// Bytes of the largest free block.
    pub largest_hole: u64,
    /// Whose blocks pin them, those that pin the most bytes first.
    pub by: Vec<Pinning>,
}

/// One line's part in pinning segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The user's line; `None` if unknown.
    pub place: Option<FrameId>,
    /// What its blocks are for.
    pub role: Role,
    /// Bytes of its blocks in partly free segments.
    pub bytes: u64,
    /// How many such blocks.
    pub blocks: u64,
    /// How many partly free segments they are in.
    pub segments: u64,
    /// Free bytes of those segments; a segment that several lines pin counts for each.
    pub free: u64,
}

impl Pinned {
    /// What is pinned in `layout`, the memory just after `event`.
    pub(super) fn of(evidence: &Evidence<'_>, layout: &[Segment], event: u32) -> Pinned {
        let history = evidence.history;
        let owners: HashMap<u64, usize> =
            history.live_at(event).map(|index| (history.lifetimes[index].address, index)).collect();
        let mut pinned = Pinned::default();
        let mut lines: HashMap<(Option<FrameId>, Role), (Pinning, u64)> = HashMap::new();
        for segment in layout {
            let free_blocks = || segment.blocks.iter().filter(|block| block.usage == BlockUse::Free);
            let free: u64 = free_blocks().map(|block| block.size).sum();
            pinned.holes += free_blocks().count() as u64;
            pinned.largest_hole = free_blocks().map(|block| block.size).fold(pinned.largest_hole, u64::max);
            if free == segment.size {
                pinned.cached += free;
                continue;
            }
            if free == 0 {
                continue;
            }
            pinned.free += free;
            pinned.segments += 1;
            pinned.live += segment.size - free;
            for block in segment.blocks.iter().filter(|block| block.usage != BlockUse::Free) {
                let index = owners.get(&block.address).copied();
                let role = index.map_or(Role::Unknown, |index| evidence.roles[index]);
                let own = index.filter(|_| role != Role::Library);
                let place = own.and_then(|index| evidence.origins.get(history.lifetimes[index].stack).owner);
                let none = Pinning { place, role, bytes: 0, blocks: 0, segments: 0, free: 0 };
                let (line, last_segment) = lines.entry((place, role)).or_insert((none, u64::from(OUTSIDE)));
                line.bytes += block.size;
                line.blocks += 1;
                if line.segments == 0 || *last_segment != segment.address {
                    line.segments += 1;
                    line.free += free;
                    *last_segment = segment.address;
                }
            }
        }
        pinned.by = lines.into_values().map(|(line, _)| line).collect();
        pinned.by.sort_by_key(|line| (std::cmp::Reverse(line.free), line.bytes, line.place, line.role));
        pinned
    }
}
