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

/// The allocator that holds what was there before the first event of `device`.
pub(crate) fn restore(settings: Settings, device: &Device, start: &Start) -> Restored {
    let pieces = pieces(&settings, device, start);
    let blocks: Vec<StartBlock> = pieces.iter().flatten().filter_map(|piece| piece.block).collect();
    let segments = start.segments.iter().zip(&pieces);
    let layout: Vec<LayoutSegment> = segments.map(|(segment, pieces)| layout_of(segment, pieces)).collect();
    let (allocator, handles) = Allocator::with_layout(settings, RecordedDriver::new(), &layout);
    let (mut live, mut pending) = (HashMap::new(), HashMap::new());
    for (block, handle) in blocks.iter().zip(handles) {
        match handle {
            RestoredBlock::Held(id) => drop(live.insert(block.address, id)),
            RestoredBlock::Pending(free) => drop(pending.insert(block.address, free)),
        }
    }
    Restored { allocator, live, pending }
}

fn layout_of(segment: &StartSegment, pieces: &[Piece]) -> LayoutSegment {
    let usage = |piece: &Piece| match piece.block {
        None => LayoutUse::Free,
        Some(StartBlock { requested, is_pending: true, .. }) => LayoutUse::Pending { requested },
        Some(StartBlock { requested, is_pending: false, .. }) => LayoutUse::Allocated { requested },
    };
    LayoutSegment {
        address: segment.address,
        stream: segment.stream,
        pool: mempool(segment.pool),
        is_small: segment.is_small,
        is_expandable: segment.is_expandable,
        pieces: pieces.iter().map(|piece| LayoutPiece { size: piece.size, usage: usage(piece) }).collect(),
    }
}

/// A part of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub size: u64,
    /// The active block it is; `None` for free memory.
    pub block: Option<StartBlock>,
}

/// The pieces of each segment of `start`, by address and without gaps. The size of a block that is gone at the end is
/// not recorded: it follows from what is next to it, then or later.
pub(crate) fn pieces(settings: &Settings, device: &Device, start: &Start) -> Vec<Vec<Piece>> {
    let tails = tails_shown_later(settings, device, start);
    start.segments.iter().map(|segment| pieces_of(settings, segment, &tails)).collect()
}

fn pieces_of(settings: &Settings, segment: &StartSegment, tails: &HashMap<u64, u64>) -> Vec<Piece> {
    let end = segment.address + segment.size;
    let mut pieces = Vec::new();
    let mut cursor = segment.address;
    for (index, block) in segment.blocks.iter().enumerate() {
        if block.address < cursor {
            continue;
        }
        if block.address > cursor {
            pieces.push(Piece { size: block.address - cursor, block: None });
        }
        let limit = segment.blocks.get(index + 1).map_or(end, |next| next.address.min(end)) - block.address;
        let rounded = block_size(block.requested, settings).min(limit);
        let has_tail = !segment.is_small && !segment.is_expandable && limit - rounded <= SMALL_REQUEST;
        let guess = if has_tail { limit } else { rounded + tails.get(&block.address).copied().unwrap_or(0) };
        let size = block.size.unwrap_or(guess).min(limit);
        pieces.push(Piece { size, block: Some(*block) });
        cursor = block.address + size;
    }
    if cursor < end {
        pieces.push(Piece { size: end - cursor, block: None });
    }
    pieces
}

/// Unsplit tails that a later event shows, by the block's address: an allocation that begins shortly after a block's
/// rounded end, while the block is still held, begins where the block really ends.
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
