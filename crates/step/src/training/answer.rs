//! An allocator answers a program's requests.

use std::iter::Peekable;
use std::slice::Iter;

use vramfit_allocator::{Allocator, Block, BlockId, SegmentChange, Settings, SimulatedDriver};
use vramfit_trace::snapshot::PoolId;

use super::program::{Mark, Program};
use super::report::{Account, Failure, Label, Peak, Phase, PhaseReport, Run};
use super::settled::Lying;
use crate::forward::Guess;
use crate::memory::{Aside, Category, Entry, Happening, Plan};
use crate::ops::PlanTable;

impl Program {
    /// The run on a GPU of this memory under these settings.
    pub fn run(&self, settings: Settings, driver: SimulatedDriver) -> Run {
        self.run_keeping(settings, driver, false)
    }

    /// The same; the requests come with it where `keeps_journal` says so.
    pub fn run_keeping(&self, settings: Settings, driver: SimulatedDriver, keeps_journal: bool) -> Run {
        let fresh = || Gpu::new(Allocator::brief(settings.clone(), driver.clone()), self, keeps_journal);
        let mut gpu = fresh();
        if !self.play(&mut gpu, true) {
            gpu = fresh();
            self.play(&mut gpu, false);
        }
        let built = gpu.phases.iter().filter(|phase| phase.phase != Phase::Build);
        let peak_reserved = built.map(|phase| phase.peak_reserved).max().unwrap_or(0);
        Run {
            phases: gpu.phases,
            peak_reserved,
            missing: self.missing.clone(),
            guessed: self.guessed.clone(),
            libraries: self.libraries,
            failure: gpu.failure,
            journal: if keeps_journal { self.journal() } else { Vec::new() },
            labels: gpu.labels.unwrap_or_default(),
            segments: gpu.segments,
        }
    }

    /// Answers all requests, or those up to one that fails. Where `can_settle`, repeated steps may be told from the one before them;
    /// false where that went wrong.
    pub(super) fn play(&self, gpu: &mut Gpu<'_>, can_settle: bool) -> bool {
        let mut course = Course::new(&self.entries, &self.asides, 0);
        let Some(repeat) = &self.repeat else {
            gpu.play(&mut course, &self.marks, |id| id);
            return true;
        };
        let (before, repeated) = self.marks.split_at(repeat.start.mark);
        let start = repeat.start.entry;
        let first_phase = repeated.first().map_or(0, |mark| mark.end - start);
        let frees = leading_frees(&self.entries[start..start + first_phase]);
        if !gpu.play(&mut course, before, |id| id) || !gpu.advance(&mut course, start + frees, |id| id) {
            return true;
        }
        let mut lying = Lying::of(gpu, repeat, |id| id);
        if !gpu.play(&mut course, repeated, |id| id) {
            return true;
        }
        let (mut is_settled, mut is_right) = (false, true);
        self.each_repeat(|number, entries, asides, renumber| {
            let renumber = |id| renumber.renumber(id);
            let mut course = Course::new(entries, asides, start);
            if !is_settled {
                if !gpu.advance(&mut course, start + frees, renumber) {
                    return false;
                }
                let now = Lying::of(gpu, repeat, renumber);
                is_settled = can_settle && now.settles(&lying, gpu, repeated.len());
                lying = now;
            }
            if is_settled {
                is_right = gpu.repeat_step(course.left(), entries.len(), repeated.len(), renumber);
                return is_right;
            }
            let later = |mark: &Mark| Mark { step: mark.step.map(|step| step + number), ..*mark };
            let marks: Vec<Mark> = repeated.iter().map(later).collect();
            gpu.play(&mut course, &marks, renumber)
        });
        is_right
    }
}

/// How many requests come before the first for memory.
fn leading_frees(entries: &[Entry]) -> usize {
    entries.iter().take_while(|entry| matches!(entry, Entry::Free { .. })).count()
}

/// Requests and what happens between them, as far as they are not answered yet.
struct Course<'p> {
    entries: &'p [Entry],
    asides: Peekable<Iter<'p, Aside>>,
    /// How many requests came before these.
    start: usize,
    done: usize,
}

impl<'p> Course<'p> {
    fn new(entries: &'p [Entry], asides: &'p [Aside], start: usize) -> Course<'p> {
        Course { entries, asides: asides.iter().peekable(), start, done: 0 }
    }

    /// The requests that are left.
    fn left(&self) -> &'p [Entry] {
        &self.entries[self.done..]
    }
}

/// Memory that the program holds.
#[derive(Clone, Copy)]
pub(super) struct Held {
    pub block: BlockId,
    pub category: Category,
}

/// A GPU at work.
pub(super) struct Gpu<'p> {
    pub allocator: Allocator<SimulatedDriver>,
    /// By the requests' numbers.
    pub held: Vec<Option<Held>>,
    /// How many plans PyTorch has gone on in cuDNN's lists, by the plans' numbers.
    pub fallbacks: Vec<u8>,
    plans: &'p PlanTable,
    /// The workspaces that plans have, where the requests do not say it.
    assumption: Option<Guess>,
    pub account: Account,
    /// The most so far in this phase; while `is_at_peak` its account is the present one and still to be written down.
    pub peak: Peak,
    is_at_peak: bool,
    place: u32,
    pub instant: u32,
    pub phases: Vec<PhaseReport>,
    pub labels: Option<Vec<Label>>,
    segments: Vec<(u32, SegmentChange)>,
    failure: Option<Failure>,
}

impl<'p> Gpu<'p> {
    pub(super) fn new(allocator: Allocator<SimulatedDriver>, program: &'p Program, keeps_journal: bool) -> Gpu<'p> {
        Gpu {
            allocator,
            held: vec![None; program.allocation_count()],
            fallbacks: Vec::new(),
            plans: &program.plans,
            assumption: program.assumption,
            account: Account::default(),
            peak: Peak::default(),
            is_at_peak: false,
            place: 0,
            instant: 0,
            phases: Vec::new(),
            labels: keeps_journal.then(Vec::new),
            segments: Vec::new(),
            failure: None,
        }
    }

    /// Answers the requests of these phases; false where one failed.
    fn play(&mut self, course: &mut Course<'_>, marks: &[Mark], number: impl Fn(u32) -> u32) -> bool {
        marks.iter().all(|mark| {
            let goes_on = self.advance(course, mark.end, &number);
            self.end(mark);
            goes_on
        })
    }

    /// Answers the requests up to this one; false where one failed.
    fn advance(&mut self, course: &mut Course<'_>, end: usize, number: impl Fn(u32) -> u32) -> bool {
        let Course { entries, start, .. } = *course;
        let end = end - start;
        while course.done < end {
            // Up to the next aside the requests are all there is.
            let stop = course.asides.peek().map_or(end, |aside| (aside.at - start).min(end));
            let mut left = &entries[course.done..stop];
            while let [entry, after @ ..] = left {
                if let (Entry::Allocate { id, bytes, place, category, plan }, [Entry::Free { id: freed }, after @ ..]) =
                    (entry, after)
                    && id == freed
                    && self.passes(*bytes, *place, *category, *plan)
                {
                    left = after;
                    continue;
                }
                if !self.answer(entry, &number) {
                    return false;
                }
                left = after;
            }
            course.done = stop;
            while let Some(aside) = course.asides.next_if(|aside| aside.at - start == stop) {
                match aside.what {
                    Happening::Recount { id, category } => self.recount(number(id), category),
                    Happening::LocalMemoryGrows => self.allocator.driver().grow_local_memory(),
                    Happening::LibraryTakes(bytes) => self.allocator.driver().library_takes(bytes),
                    Happening::HostFrees(bytes) => self.allocator.driver().host_frees(bytes),
                }
            }
        }
        true
    }

    /// Whether memory that is let go of at once can be told from the cache alone; then it has been counted.
    #[inline]
    fn passes(&mut self, bytes: u64, place: u32, category: Category, plan: Option<Plan>) -> bool {
        if self.labels.is_some() {
            return false;
        }
        if let Some(plan) = plan
            && self.fallbacks.get(plan.get() as usize).is_some_and(|gone_on| *gone_on > 0)
        {
            return false;
        }
        let bytes = self.wanted(bytes, plan);
        if bytes == 0 {
            self.instant += 2;
            self.place = place;
            return true;
        }
        let Some(size) = self.allocator.passing(bytes) else { return false };
        let allocated = self.allocator.allocated_bytes() + size;
        if allocated > self.peak.allocated {
            let mut account = self.account;
            account.requested[category as usize] += bytes;
            account.rounding += size - bytes;
            self.peak = Peak { allocated, account, place, instant: self.instant + 1 };
            self.is_at_peak = false;
        }
        self.instant += 2;
        self.place = place;
        true
    }

    /// The bytes of a request; of a plan of cuDNN's, those of its own workspace as it is assumed to be.
    #[inline]
    pub(super) fn wanted(&self, bytes: u64, plan: Option<Plan>) -> u64 {
        match (plan, self.assumption) {
            (Some(plan), Some(assumption)) => self.plans.own(plan, assumption),
            _ => bytes,
        }
    }

    /// What is held is about to be less, or something else.
    #[inline]
    fn leave_peak(&mut self) {
        if self.is_at_peak {
            self.is_at_peak = false;
            self.peak.account = self.account;
        }
    }

    #[inline]
    fn answer(&mut self, entry: &Entry, number: &impl Fn(u32) -> u32) -> bool {
        self.instant += 1;
        match *entry {
            Entry::Allocate { id, bytes, place, category, plan } => {
                self.place = place;
                let block = match plan {
                    Some(plan) => self.allocate_workspace(bytes, plan),
                    None => match self.allocator.allocate(bytes, 0, PoolId::DEFAULT) {
                        Ok(block) => Some(block),
                        Err(error) => {
                            self.failure = Some(Failure { error, place });
                            return false;
                        }
                    },
                };
                self.note_segments();
                let id = number(id);
                let Some(block) = block else { return true };
                self.held[id as usize] = Some(Held { block, category });
                self.label(id, block, category);
                let Block { size, requested, .. } = *self.allocator.block(block);
                self.account.requested[category as usize] += requested;
                self.account.rounding += size - requested;
                let allocated = self.allocator.allocated_bytes();
                if allocated > self.peak.allocated {
                    self.is_at_peak = true;
                    (self.peak.allocated, self.peak.place, self.peak.instant) = (allocated, place, self.instant);
                }
            }
            Entry::Free { id } => {
                if let Some(Held { block, category }) = self.held[number(id) as usize].take() {
                    self.leave_peak();
                    let Block { size, requested, .. } = *self.allocator.block(block);
                    self.account.requested[category as usize] -= requested;
                    self.account.rounding -= size - requested;
                    self.allocator.free(block);
                }
            }
        }
        true
    }

    /// The workspace of a plan of cuDNN's, or of the first one for which there is room, from where PyTorch has got to on: what it has
    /// found, it keeps to. `None` is the last, which needs none.
    fn allocate_workspace(&mut self, bytes: u64, plan: Plan) -> Option<BlockId> {
        let bytes = self.wanted(bytes, Some(plan));
        if bytes == 0 {
            return None;
        }
        let number = plan.get() as usize;
        if self.fallbacks.len() <= number {
            self.fallbacks.resize(number + 1, 0);
        }
        let lesser = self.plans.instead_of(plan, bytes);
        loop {
            let wanted = match usize::from(self.fallbacks[number]) {
                0 => bytes,
                gone_on => *lesser.get(gone_on - 1)?,
            };
            match if wanted > 0 { self.allocator.allocate(wanted, 0, PoolId::DEFAULT).ok() } else { None } {
                Some(block) => return Some(block),
                None => self.fallbacks[number] += 1,
            }
        }
    }

    fn recount(&mut self, id: u32, category: Category) {
        self.leave_peak();
        if let Some(held) = &mut self.held[id as usize] {
            let block = held.block;
            let bytes = self.allocator.block(block).requested;
            self.account.requested[held.category as usize] -= bytes;
            self.account.requested[category as usize] += bytes;
            held.category = category;
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

    fn end(&mut self, mark: &Mark) {
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
        self.peak = Peak { allocated, account: self.account, place: self.place, instant: self.instant };
        self.allocator.reset_peaks();
    }
}
