//! What lived when: every allocation from birth to death, and the levels after every event.

use std::collections::HashMap;

use vramfit_allocator::{Segment, Settings};
use vramfit_replay::FaithfulReplay;
use vramfit_trace::snapshot::{Action, BlockState, Device, PoolId, StackId};
use vramfit_trace::start::Start;

/// The event number for "before the first event" and for "never".
pub const OUTSIDE: u32 = u32::MAX;

/// One allocation, from the event that made it to the event that freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// The event that made it; [`OUTSIDE`] if it was there before the recording.
    pub birth: u32,
    /// The event that freed it; [`OUTSIDE`] if it was held at the end.
    pub death: u32,
    /// The event after which its memory could be used again, later than `death` if other streams used it.
    pub reusable: u32,
    /// Its address.
    pub address: u64,
    /// Bytes of its block, tail included.
    pub size: u64,
    /// Bytes requested.
    pub requested: u64,
    /// Its stream.
    pub stream: u64,
    /// Its pool.
    pub pool: PoolId,
    /// The call stack.
    pub stack: StackId,
}

impl Lifetime {
    /// Whether it is held just after `event`.
    pub fn is_live_at(&self, event: u32) -> bool {
        (self.birth == OUTSIDE || self.birth <= event) && self.death > event
    }

    /// Whether it is held when the recording ends.
    pub fn is_live_at_end(&self) -> bool {
        self.death == OUTSIDE
    }
}

/// All allocations of a recording.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The allocations: those from before the recording by address, then the others by birth.
    pub lifetimes: Vec<Lifetime>,
    /// How many of them are from before the recording.
    pub earlier: usize,
    /// Bytes held after each event.
    pub allocated: Vec<u64>,
    /// Bytes reserved after each event.
    pub reserved: Vec<u64>,
    /// Bytes held before the first event.
    pub allocated_at_start: u64,
    /// Bytes reserved before the first event.
    pub reserved_at_start: u64,
    /// Differences between the recording and its replay; the sizes of blocks are then estimates.
    pub mismatches: u64,
}

impl History {
    /// Replays `device` and follows its allocations.
    pub fn of(device: &Device, settings: &Settings, start: &Start) -> History {
        let mut builder = Builder::new(device, settings, start);
        while let Some(index) = builder.replay.advance() {
            builder.note(index);
        }
        builder.finish()
    }

    /// The allocations made by events, in order.
    pub fn births(&self) -> &[Lifetime] {
        &self.lifetimes[self.earlier..]
    }

    /// How many allocations were made by events before `event`.
    pub fn births_before(&self, event: u32) -> usize {
        self.births().partition_point(|lifetime| lifetime.birth < event)
    }

    /// The number of the allocation that `event` made.
    pub fn made_by(&self, event: u32) -> Option<usize> {
        let index = self.births_before(event);
        let is_it = self.births().get(index).is_some_and(|lifetime| lifetime.birth == event);
        is_it.then_some(self.earlier + index)
    }

    /// The event of the allocated peak, and its bytes; [`OUTSIDE`] if that was before the first event.
    pub fn peak_allocated(&self) -> (u32, u64) {
        peak(&self.allocated, self.allocated_at_start)
    }

    /// The event of the reserved peak, and its bytes.
    pub fn peak_reserved(&self) -> (u32, u64) {
        peak(&self.reserved, self.reserved_at_start)
    }

    /// The numbers of the allocations held just after `event`; before the first event for [`OUTSIDE`].
    pub fn live_at(&self, event: u32) -> impl Iterator<Item = usize> + '_ {
        let range = match event {
            OUTSIDE => 0..self.earlier,
            _ => 0..self.earlier + self.births_before(event.saturating_add(1)),
        };
        range.filter(move |&index| event == OUTSIDE || self.lifetimes[index].death > event)
    }
}

fn peak(levels: &[u64], at_start: u64) -> (u32, u64) {
    let mut best = (OUTSIDE, at_start);
    for (index, &level) in levels.iter().enumerate() {
        if level > best.1 {
            best = (number(index), level);
        }
    }
    best
}

pub(crate) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(OUTSIDE)
}

/// The segments just after each of `events`, which must be in order.
pub fn layouts_at(device: &Device, settings: &Settings, start: &Start, events: &[u32]) -> Vec<Vec<Segment>> {
    let mut replay = FaithfulReplay::new(device, settings, start);
    let mut layouts = Vec::with_capacity(events.len());
    let mut pending = events.iter().peekable();
    while pending.next_if(|&&event| event == OUTSIDE).is_some() {
        layouts.push(replay.segments());
    }
    while pending.peek().is_some()
        && let Some(index) = replay.advance()
    {
        while pending.next_if(|&&event| event == number(index)).is_some() {
            layouts.push(replay.segments());
        }
    }
    layouts
}

struct Builder<'a> {
    device: &'a Device,
    replay: FaithfulReplay<'a>,
    history: History,
    live: HashMap<u64, usize>,
    pending: HashMap<u64, usize>,
    allocated: u64,
    reserved: u64,
}

impl<'a> Builder<'a> {
    fn new(device: &'a Device, settings: &Settings, start: &Start) -> Builder<'a> {
        let replay = FaithfulReplay::new(device, settings, start);
        let mut history = History::default();
        let mut live = HashMap::new();
        let mut allocated = 0;
        for segment in &start.segments {
            for block in segment.blocks.iter().filter(|block| !block.is_pending) {
                let Some(held) = replay.held_at(block.address) else { continue };
                live.insert(block.address, history.lifetimes.len());
                allocated += held.size;
                history.lifetimes.push(Lifetime {
                    birth: OUTSIDE,
                    death: OUTSIDE,
                    reusable: OUTSIDE,
                    address: block.address,
                    size: held.size,
                    requested: block.requested,
                    stream: segment.stream,
                    pool: segment.pool,
                    stack: block.stack,
                });
            }
        }
        let reserved = start.reserved();
        history.earlier = history.lifetimes.len();
        history.allocated_at_start = allocated;
        history.reserved_at_start = reserved;
        history.allocated.reserve(device.events.len());
        history.reserved.reserve(device.events.len());
        Builder { device, replay, history, live, pending: HashMap::new(), allocated, reserved }
    }

    fn note(&mut self, index: usize) {
        let event = self.device.events[index];
        match event.action {
            Action::Alloc => {
                let size = self.replay.held_at(event.address).map_or(event.size, |block| block.size);
                if let Some(lost) = self.live.insert(event.address, self.history.lifetimes.len()) {
                    self.end(lost, index);
                }
                self.allocated = self.allocated.saturating_add(size);
                self.history.lifetimes.push(Lifetime {
                    birth: number(index),
                    death: OUTSIDE,
                    reusable: OUTSIDE,
                    address: event.address,
                    size,
                    requested: event.size,
                    stream: event.stream,
                    pool: event.pool,
                    stack: event.stack,
                });
            }
            Action::FreeRequested => {
                if let Some(held) = self.live.remove(&event.address) {
                    self.end(held, index);
                    self.pending.insert(event.address, held);
                }
            }
            Action::FreeCompleted => {
                if let Some(freed) = self.pending.remove(&event.address) {
                    self.history.lifetimes[freed].reusable = number(index);
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => self.reserved = self.reserved.saturating_add(event.size),
            Action::SegmentFree | Action::SegmentUnmap => self.reserved = self.reserved.saturating_sub(event.size),
            Action::Snapshot | Action::Oom => {}
        }
        self.history.allocated.push(self.allocated);
        self.history.reserved.push(self.reserved);
    }

    fn end(&mut self, held: usize, index: usize) {
        let lifetime = &mut self.history.lifetimes[held];
        lifetime.death = number(index);
        self.allocated = self.allocated.saturating_sub(lifetime.size);
    }

    fn finish(mut self) -> History {
        self.fill_stacks_from_end();
        self.history.mismatches = self.replay.count_mismatches();
        self.history
    }

    /// Some recordings keep stacks only with the blocks that are held at the end.
    fn fill_stacks_from_end(&mut self) {
        let blocks = self.device.segments.iter().flat_map(|segment| &segment.blocks);
        for block in blocks.filter(|block| block.state == BlockState::Allocated && !block.stack.is_none()) {
            if let Some(&held) = self.live.get(&block.address) {
                let lifetime = &mut self.history.lifetimes[held];
                if lifetime.stack.is_none() {
                    lifetime.stack = block.stack;
                }
            }
        }
    }
}
