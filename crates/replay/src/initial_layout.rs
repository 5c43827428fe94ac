//! What was in memory before the first event, as the layout an allocator starts with.

use std::collections::{BTreeMap, HashMap};

use vramfit_allocator::size::{SMALL_REQUEST, block_size};
use vramfit_allocator::{
    Allocator, BlockId, LayoutPiece, LayoutSegment, LayoutUse, PendingFree, RestoredBlock, Settings,
};
use vramfit_trace::snapshot::{Action, Device};
use vramfit_trace::start::{Start, StartBlock, StartSegment};

use crate::convert::mempool;
use crate::recorded_driver::RecordedDriver;

/// An allocator in the state in which a recording found it.
pub(crate) struct Restored {
    pub allocator: Allocator<RecordedDriver>,
    /// Blocks the program holds, by recorded address.
    pub live: HashMap<u64, BlockId>,
    /// Frees that wait for other streams, by recorded address.
    pub pending: HashMap<u64, PendingFree>,
}

/// The allocator that holds what `start` says was there before the first event of `device`.
pub(crate) fn restore(settings: Settings, device: &Device, start: &Start) -> Restored {
    let tails = tails_shown_later(&settings, device, start);
    let mut addresses = Vec::new();
    let layout: Vec<LayoutSegment> = start
        .segments
        .iter()
        .map(|segment| {
            let cuts = cut(&settings, segment, &tails);
            addresses.extend(cuts.iter().filter_map(|(_, block)| block.map(|block| block.address)));
            LayoutSegment {
                address: segment.address,
                stream: segment.stream,
                pool: mempool(segment.pool),
                is_small: segment.is_small,
                is_expandable: segment.is_expandable,
                pieces: cuts.into_iter().map(|(size, block)| LayoutPiece { size, usage: usage(block) }).collect(),
            }
        })
        .collect();
    let (allocator, handles) = Allocator::with_layout(settings, RecordedDriver::new(), &layout);
    let (mut live, mut pending) = (HashMap::new(), HashMap::new());
    for (address, handle) in addresses.into_iter().zip(handles) {
        match handle {
            RestoredBlock::Held(id) => drop(live.insert(address, id)),
            RestoredBlock::Pending(free) => drop(pending.insert(address, free)),
        }
    }
    Restored { allocator, live, pending }
}

fn usage(block: Option<StartBlock>) -> LayoutUse {
    match block {
        None => LayoutUse::Free,
        Some(StartBlock { requested, is_pending: true, .. }) => LayoutUse::Pending { requested },
        Some(StartBlock { requested, is_pending: false, .. }) => LayoutUse::Allocated { requested },
    }
}

/// A piece of a segment: its size, and the active block it is, if it is one.
type Cut = (u64, Option<StartBlock>);

/// Cuts a segment into its active blocks and the free pieces between them.
fn cut(settings: &Settings, segment: &StartSegment, tails: &HashMap<u64, u64>) -> Vec<Cut> {
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
        let rounded = block_size(block.requested, settings).min(limit);
        let has_tail = !segment.is_small && !segment.is_expandable && limit - rounded <= SMALL_REQUEST;
        let guess = if has_tail { limit } else { rounded + tails.get(&block.address).copied().unwrap_or(0) };
        let size = block.size.unwrap_or(guess).min(limit);
        cuts.push((size, Some(*block)));
        cursor = block.address + size;
    }
    if cursor < end {
        cuts.push((end - cursor, None));
    }
    cuts
}

/// Unsplit tails that a later event shows: an allocation that begins shortly after a block's rounded end, while the
/// block is still held, begins where the block really ends.
fn tails_shown_later(settings: &Settings, device: &Device, start: &Start) -> HashMap<u64, u64> {
    let mut unknown: BTreeMap<u64, u64> = BTreeMap::new();
    for segment in start.segments.iter().filter(|segment| !segment.is_small && !segment.is_expandable) {
        for block in segment.blocks.iter().filter(|block| block.size.is_none()) {
            unknown.insert(block.address, block.address + block_size(block.requested, settings));
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
