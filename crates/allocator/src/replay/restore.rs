//! Putting an allocator into the state in which a recording found it.

use std::collections::{BTreeMap, HashMap};

use vramfit_trace::snapshot::{Action, Device, Event};
use vramfit_trace::start::{Start, StartBlock, StartSegment};

use super::recorded_driver::{Gain, RecordedDriver};
use crate::allocator::{Allocator, PendingFree, Search};
use crate::block::{BlockId, Use};
use crate::pool::Pool;
use crate::size::{SMALL_REQUEST, SMALL_SEGMENT, block_size};
use crate::statistics::Statistics;

/// Blocks that are live and frees that are pending, by address.
type Held = (HashMap<u64, BlockId>, HashMap<u64, PendingFree>);

/// Fills `allocator` with what `start` says lay there before the first event. Its statistics then begin at that state.
pub(crate) fn restore(allocator: &mut Allocator<RecordedDriver>, device: &Device, start: &Start) -> Held {
    let mut held = Held::default();
    let tails = tails_shown_later(allocator, device, start);
    for segment in &start.segments {
        let cuts = cut(allocator, segment, &tails);
        let head = reserve(allocator, segment);
        lay_out(allocator, head, &cuts, &mut held);
    }
    let statistics = &mut allocator.statistics;
    let mut fresh = Statistics::default();
    for (fresh, old) in [
        (&mut fresh.allocation, &statistics.allocation),
        (&mut fresh.segment, &statistics.segment),
        (&mut fresh.active, &statistics.active),
        (&mut fresh.inactive_split, &statistics.inactive_split),
        (&mut fresh.allocated_bytes, &statistics.allocated_bytes),
        (&mut fresh.reserved_bytes, &statistics.reserved_bytes),
        (&mut fresh.active_bytes, &statistics.active_bytes),
        (&mut fresh.inactive_split_bytes, &statistics.inactive_split_bytes),
        (&mut fresh.requested_bytes, &statistics.requested_bytes),
    ] {
        fresh.increase(true, old.small_pool.current);
        fresh.increase(false, old.large_pool.current);
    }
    fresh.oversize_allocations.increase(statistics.oversize_allocations.current);
    fresh.oversize_segments.increase(statistics.oversize_segments.current);
    allocator.statistics = fresh;
    allocator.clear_changes();
    held
}

/// A piece of a segment: its size, and the active block it is, if it is one.
type Cut = (u64, Option<StartBlock>);

/// Cuts a segment into its active blocks and what lies between them.
fn cut(allocator: &Allocator<RecordedDriver>, segment: &StartSegment, tails: &HashMap<u64, u64>) -> Vec<Cut> {
    let end = segment.address + segment.size;
    let mut cuts = Vec::new();
    let mut cursor = segment.address;
    for (index, block) in segment.blocks.iter().enumerate() {
        if block.address < cursor {
            continue;
        }
        if block.address > cursor {
            cuts.push((block.address - cursor, None));
        }
        let limit = segment.blocks.get(index + 1).map_or(end, |next| next.address.min(end)) - block.address;
        let least = block_size(block.requested, &allocator.settings).min(limit);
        let has_tail = !segment.is_small && !segment.is_expandable && limit - least <= SMALL_REQUEST;
        let guess = if has_tail { limit } else { least + tails.get(&block.address).copied().unwrap_or(0) };
        let size = block.size.unwrap_or(guess).min(limit);
        cuts.push((size, Some(*block)));
        cursor = block.address + size;
    }
    if cursor < end {
        cuts.push((end - cursor, None));
    }
    cuts
}

/// Unsplit tails that only a later event gives away: an allocation that begins shortly after a block's rounded end,
/// while the block is still there, begins where the block really ends.
fn tails_shown_later(allocator: &Allocator<RecordedDriver>, device: &Device, start: &Start) -> HashMap<u64, u64> {
    let mut unknown: BTreeMap<u64, u64> = BTreeMap::new();
    for segment in start.segments.iter().filter(|segment| !segment.is_small && !segment.is_expandable) {
        for block in segment.blocks.iter().filter(|block| block.size.is_none()) {
            unknown.insert(block.address, block.address + block_size(block.requested, &allocator.settings));
        }
    }
    let mut tails = HashMap::new();
    for event in &device.events {
        if unknown.is_empty() {
            break;
        }
        match event.action {
            Action::FreeRequested => {
                unknown.remove(&event.address);
            }
            Action::Alloc => {
                let before = unknown.range(..event.address).next_back().map(|(&address, &end)| (address, end));
                if let Some((address, end)) = before
                    && event.address >= end
                {
                    if event.address - end <= SMALL_REQUEST {
                        tails.insert(address, event.address - end);
                    }
                    unknown.remove(&address);
                }
            }
            _ => {}
        }
    }
    tails
}

/// Makes the segment, as one block that is in no pool.
fn reserve(allocator: &mut Allocator<RecordedDriver>, segment: &StartSegment) -> BlockId {
    let class = if segment.is_small { SMALL_REQUEST } else { SMALL_REQUEST + 1 };
    let pool = allocator.pool_for(class, segment.pool);
    let search = Search { pool, stream: segment.stream, size: segment.size, segment: segment.size };
    if !segment.is_expandable {
        return allocator.adopt_segment(segment.address, search);
    }
    allocator.driver.gains.push_back(Gain { address: segment.address, size: segment.size });
    let page = if segment.is_small { SMALL_SEGMENT } else { allocator.settings.large_segment_size };
    let room = allocator.unmapped_room_at(pool, segment);
    let unmapped = match room {
        Some(id) => id,
        None => allocator.adopt_address_space(search, segment.address, 1 << 44, page),
    };
    allocator.map_restored(unmapped, segment.address, segment.size)
}

/// Cuts the block `head` as `cuts` says.
fn lay_out(allocator: &mut Allocator<RecordedDriver>, head: BlockId, cuts: &[Cut], held: &mut Held) {
    let mut pieces = Vec::with_capacity(cuts.len());
    let mut cursor = head;
    for (index, &(size, block)) in cuts.iter().enumerate() {
        let requested = block.map_or(0, |block| block.requested);
        let is_last = index + 1 == cuts.len();
        let id = allocator.hand_out_part(cursor, size, requested, !is_last);
        pieces.push((id, block));
        if let Some(rest) = allocator.blocks[id].next.filter(|_| !is_last) {
            let key = Pool::size_key(&allocator.blocks[rest]);
            let pool = allocator.blocks[rest].pool;
            allocator.pools[pool as usize].free.remove(&key);
            cursor = rest;
        }
    }
    for (id, block) in pieces {
        match block {
            None => allocator.free(id),
            Some(block) if block.is_pending => {
                held.1.insert(block.address, allocator.request_free(id));
            }
            Some(block) => {
                held.0.insert(block.address, id);
            }
        }
    }
}

impl Allocator<RecordedDriver> {
    /// The unmapped block of an expandable segment already known that contains `segment`.
    fn unmapped_room_at(&self, pool: u32, segment: &StartSegment) -> Option<BlockId> {
        let before = self.pools[pool as usize].unmapped.range(..=(segment.stream, segment.address)).next_back();
        before.map(|(_, &id)| id).filter(|&id| {
            let block = &self.blocks[id];
            block.stream == segment.stream && block.address + block.size >= segment.address + segment.size
        })
    }

    /// Maps exactly the given range inside an unmapped block; the mapped block, in no pool.
    fn map_restored(&mut self, unmapped: BlockId, address: u64, size: u64) -> BlockId {
        let whole = self.blocks[unmapped];
        let pool = whole.pool as usize;
        self.pools[pool].unmapped.remove(&(whole.stream, whole.address));
        let mapped = self.blocks.insert(crate::block::Block { address, size, usage: Use::Free, ..whole });
        self.blocks.splice(mapped, whole.previous, whole.next);
        let mut before = whole.previous;
        if address > whole.address {
            self.blocks[unmapped].size = address - whole.address;
            self.blocks.splice(unmapped, whole.previous, Some(mapped));
            self.pools[pool].unmapped.insert((whole.stream, whole.address), unmapped);
            before = Some(unmapped);
        } else {
            self.blocks.delete(unmapped);
        }
        self.blocks[mapped].previous = before;
        let end = whole.address + whole.size;
        if address + size < end {
            let rest = self.blocks.insert(crate::block::Block {
                address: address + size,
                size: end - address - size,
                ..whole
            });
            self.blocks.splice(rest, Some(mapped), whole.next);
            self.pools[pool].unmapped.insert((whole.stream, address + size), rest);
        }
        let is_small = self.pools[pool].is_small;
        self.statistics.reserved_bytes.increase(is_small, size);
        self.driver.gains.clear();
        mapped
    }

    /// Gives back the segment that a recording shows as given back.
    pub(crate) fn release_recorded_segment(&mut self, event: &Event) -> bool {
        let key = (event.stream, event.size, event.address);
        let found = self.pools.iter().find_map(|pool| pool.free.get(key));
        found.is_some_and(|id| self.release_segment_at(id))
    }

    /// Gives back the pages that a recording shows as given back.
    pub(crate) fn unmap_recorded(&mut self, event: &Event) -> bool {
        let large_enough =
            |pool: &Pool| pool.free.from((event.stream, event.size, 0)).map(|(_, id)| id).collect::<Vec<_>>();
        let found = self.pools.iter().flat_map(large_enough).find(|&id| {
            let block = &self.blocks[id];
            block.expandable.is_some()
                && block.address <= event.address
                && block.address + block.size >= event.address + event.size
        });
        let Some(id) = found else { return false };
        self.changes.clear();
        self.unmap(id)
            && self.changes.last().is_some_and(|change| (change.address, change.size) == (event.address, event.size))
    }
}
