//! The allocator at work: requests in, live bytes and peaks out.

use std::iter::Peekable;
use std::slice::Iter;

use vramfit_allocator::MempoolId;
use vramfit_allocator::{Allocator, Block, BlockId, SegmentChange, SimulatedDriver};
use vramfit_cudnn::convolution::{Assumption, PlanId, PlanTable};
use vramfit_eager::memory::{Category, Entry, SideEvent, SideEventKind};

use crate::program::{Mark, Program};
use crate::report::{Account, Failure, Label, Peak, PhaseReport};

/// Requests with their side events, as far as they are not answered yet.
pub(super) struct Requests<'p> {
    entries: &'p [Entry],
    side_events: Peekable<Iter<'p, SideEvent>>,
    /// How many requests came before these.
    start: usize,
    done: usize,
}

impl<'p> Requests<'p> {
    pub(super) fn new(entries: &'p [Entry], side_events: &'p [SideEvent], start: usize) -> Requests<'p> {
        Requests { entries, side_events: side_events.iter().peekable(), start, done: 0 }
    }

    /// The requests that are left.
    pub(super) fn left(&self) -> &'p [Entry] {
        &self.entries[self.done..]
    }

    /// The next `count` requests and their side events, which count as answered.
    pub(super) fn skip(&mut self, count: usize) -> (&'p [Entry], Vec<SideEvent>) {
        let skipped = &self.entries[self.done..self.done + count];
        self.done += count;
        let end = self.start + self.done;
        (skipped, std::iter::from_fn(|| self.side_events.next_if(|event| event.at <= end).copied()).collect())
    }
}

/// The block of a live allocation.
#[derive(Clone, Copy)]
pub(super) struct LiveBlock {
    pub block: BlockId,
    pub category: Category,
}

/// An allocator that answers a program.
pub(super) struct Answering<'p> {
    pub allocator: Allocator<SimulatedDriver>,
    /// By id; none beyond its end.
    live: Vec<Option<LiveBlock>>,
    /// By cuDNN plan: how many smaller plans PyTorch has fallen back to.
    pub fallbacks: Vec<u8>,
    plans: &'p PlanTable,
    /// Which sizes the workspaces of plans have, where they are not those of the requests.
    assumption: Option<Assumption>,
    pub account: Account,
    /// The peak so far in this phase; while `is_at_peak` its account is the present one and not stored yet.
    pub peak: Peak,
    is_at_peak: bool,
    origin: u32,
    /// How many requests have been answered.
    pub instant: u32,
    pub phases: Vec<PhaseReport>,
    pub labels: Option<Vec<Label>>,
    pub segments: Vec<(u32, SegmentChange)>,
    pub failure: Option<Failure>,
    /// Whether what is repeated in a steady state needs no answers.
    pub uses_steady_state: bool,
    /// False where a steady state turned out not to be one.
    pub is_valid: bool,
    /// How many of the phases belong to steps after the reported ones.
    pub later_phases: usize,
}

impl<'p> Answering<'p> {
    pub(super) fn new(
        allocator: Allocator<SimulatedDriver>,
        program: &'p Program,
        keeps_journal: bool,
    ) -> Answering<'p> {
        Answering {
            allocator,
            live: Vec::with_capacity(program.next_id as usize),
            fallbacks: Vec::new(),
            plans: &program.plans,
            assumption: program.assumption,
            account: Account::default(),
            peak: Peak::default(),
            is_at_peak: false,
            origin: 0,
            instant: 0,
            phases: Vec::new(),
            labels: keeps_journal.then(Vec::new),
            segments: Vec::new(),
            failure: None,
            uses_steady_state: program.answers_steady_state,
            is_valid: true,
            later_phases: 0,
        }
    }

    /// The block of a live allocation.
    pub(super) fn live(&self, id: u32) -> Option<LiveBlock> {
        self.live.get(id as usize).copied().flatten()
    }

    pub(super) fn live_mut(&mut self, id: u32) -> Option<&mut LiveBlock> {
        self.live.get_mut(id as usize)?.as_mut()
    }

    #[inline]
    pub(super) fn add_live(&mut self, id: u32, block: LiveBlock) {
        let id = id as usize;
        if id >= self.live.len() {
            self.live.resize(id + 1, None);
        }
        self.live[id] = Some(block);
    }

    #[inline]
    pub(super) fn remove_live(&mut self, id: u32) -> Option<LiveBlock> {
        self.live.get_mut(id as usize)?.take()
    }

    /// Answers the requests before request `end`; false where one failed.
    pub(super) fn answer_until(
        &mut self,
        requests: &mut Requests<'_>,
        end: usize,
        renumber: impl Fn(u32) -> u32,
    ) -> bool {
        let Requests { entries, start, .. } = *requests;
        let end = end - start;
        while requests.done < end {
            let stop = requests.side_events.peek().map_or(end, |event| (event.at - start).min(end));
            for entry in &entries[requests.done..stop] {
                if !self.answer(entry, &renumber) {
                    return false;
                }
            }
            requests.done = stop;
            while let Some(event) = requests.side_events.next_if(|event| event.at - start == stop) {
                match event.kind {
                    SideEventKind::CategoryChanged { id, category } => self.change_category(renumber(id), category),
                    SideEventKind::LocalMemoryGrows => self.allocator.driver().grow_local_memory(),
                    SideEventKind::LibraryAllocates(bytes) => self.allocator.driver().library_takes(bytes),
                    SideEventKind::HostFrees(bytes) => self.allocator.driver().host_frees(bytes),
                    SideEventKind::HostPins(bytes) => self.allocator.driver().pins_host_memory(bytes),
                    SideEventKind::CacheEmptied => self.allocator.empty_cache(),
                }
            }
        }
        true
    }

    /// The bytes of a request: of a cuDNN plan, those of its workspace under the assumption.
    #[inline]
    pub(super) fn wanted(&self, bytes: u64, plan: Option<PlanId>) -> u64 {
        match (plan, self.assumption) {
            (Some(plan), Some(assumption)) => self.plans.own(plan, assumption),
            _ => bytes,
        }
    }

    /// Stores the account of the peak before live memory changes.
    #[inline]
    fn leave_peak(&mut self) {
        if self.is_at_peak {
            self.is_at_peak = false;
            self.peak.account = self.account;
        }
    }

    #[inline]
    fn answer(&mut self, entry: &Entry, renumber: &impl Fn(u32) -> u32) -> bool {
        self.instant += 1;
        match *entry {
            Entry::Allocate { id, bytes, origin, category, stream, plan } => {
                self.origin = origin;
                let block = match plan {
                    Some(plan) if !self.plans.is_required(plan) => self.allocate_workspace(bytes, plan),
                    Some(_) if self.wanted(bytes, plan) == 0 => None,
                    _ => match self.allocator.allocate(self.wanted(bytes, plan), stream as u64, MempoolId::DEFAULT) {
                        Ok(block) => Some(block),
                        Err(error) => {
                            self.failure = Some(Failure { error, origin });
                            return false;
                        }
                    },
                };
                self.note_segments();
                let id = renumber(id);
                let Some(block) = block else { return true };
                self.add_live(id, LiveBlock { block, category });
                self.label(id, block, category);
                let Block { size, requested, .. } = *self.allocator.block(block);
                self.account.requested[category as usize] += requested;
                self.account.rounding += size - requested;
                self.account.squared_rounding += squared_sectors(size - requested);
                let allocated = self.allocator.allocated_bytes();
                if allocated > self.peak.allocated {
                    self.is_at_peak = true;
                    (self.peak.allocated, self.peak.origin, self.peak.instant) = (allocated, origin, self.instant);
                }
            }
            Entry::Free { id } => {
                if let Some(LiveBlock { block, category }) = self.remove_live(renumber(id)) {
                    self.leave_peak();
                    let Block { size, requested, .. } = *self.allocator.block(block);
                    self.account.requested[category as usize] -= requested;
                    self.account.rounding -= size - requested;
                    self.account.squared_rounding -= squared_sectors(size - requested);
                    self.allocator.free(block);
                }
            }
        }
        true
    }

    /// The workspace of a cuDNN plan, or of the first smaller plan for which there is room. PyTorch keeps to the plan that
    /// it has fallen back to. `None` is the last plan, which needs no workspace.
    fn allocate_workspace(&mut self, bytes: u64, plan: PlanId) -> Option<BlockId> {
        let bytes = self.wanted(bytes, Some(plan));
        if bytes == 0 {
            return None;
        }
        let number = plan.get() as usize;
        if self.fallbacks.len() <= number {
            self.fallbacks.resize(number + 1, 0);
        }
        loop {
            let wanted = match usize::from(self.fallbacks[number]) {
                0 => bytes,
                fallbacks => self.plans.fallback(plan, bytes, fallbacks - 1)?,
            };
            match if wanted > 0 { self.allocator.allocate(wanted, 0, MempoolId::DEFAULT).ok() } else { None } {
                Some(block) => return Some(block),
                None => self.fallbacks[number] += 1,
            }
        }
    }

    fn change_category(&mut self, id: u32, category: Category) {
        self.leave_peak();
        if let Some(live) = self.live_mut(id) {
            let LiveBlock { block, category: before } = std::mem::replace(live, LiveBlock { category, ..*live });
            let bytes = self.allocator.block(block).requested;
            self.account.requested[before as usize] -= bytes;
            self.account.requested[category as usize] += bytes;
            self.label(id, block, category);
        }
    }

    #[inline]
    fn note_segments(&mut self) {
        if self.labels.is_some() {
            let instant = self.instant;
            self.segments.extend(self.allocator.take_changes().into_iter().map(|change| (instant, change)));
        } else {
            self.allocator.clear_changes();
        }
    }

    #[inline]
    fn label(&mut self, id: u32, block: BlockId, category: Category) {
        if let Some(labels) = &mut self.labels {
            let block = self.allocator.block(block);
            let (block, address) = (block.size, block.address);
            labels.push(Label { instant: self.instant, id, block, address, category });
        }
    }

    pub(super) fn end_phase(&mut self, mark: &Mark) {
        self.leave_peak();
        self.phases.push(PhaseReport {
            phase: mark.phase,
            step: mark.step,
            micro: mark.micro,
            allocated: self.allocator.allocated_bytes(),
            peak: self.peak,
            reserved: self.allocator.reserved_bytes(),
            peak_reserved: self.allocator.statistics().reserved_bytes.all.peak,
            end: self.instant,
        });
        let allocated = self.allocator.allocated_bytes();
        self.peak = Peak { allocated, account: self.account, origin: self.origin, instant: self.instant };
        self.allocator.reset_peaks();
    }
}

/// Whole sectors of 512 bytes, squared.
fn squared_sectors(bytes: u64) -> u128 {
    u128::from(bytes >> 9).pow(2)
}
