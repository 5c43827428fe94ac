//! An allocator answers a program's requests.

use std::iter::Peekable;
use std::slice::Iter;

use vramfit_allocator::{Allocator, Block, BlockId, MempoolId, SegmentChange, Settings, SimulatedDriver};

use super::program::{Mark, Program, Round};
use super::report::{Account, Failure, Label, Peak, Phase, PhaseReport, Run};
use super::settled::{Lying, Settled};
use vramfit_cudnn::convolution::{Assumption, PlanId, PlanTable};
use vramfit_eager::memory::{Aside, Category, Entry, Happening};

impl Program {
    /// The run on a GPU of this memory under these settings.
    pub fn run(&self, settings: Settings, driver: SimulatedDriver) -> Run {
        self.run_keeping(settings, driver, false)
    }

    /// The same; the requests come with it where `keeps_journal` says so.
    pub fn run_keeping(&self, settings: Settings, driver: SimulatedDriver, keeps_journal: bool) -> Run {
        let fresh =
            || Gpu::new(Allocator::with_reduced_statistics(settings.clone(), driver.clone()), self, keeps_journal);
        let mut gpu = fresh();
        if !self.play(&mut gpu) {
            gpu = fresh();
            gpu.can_settle = false;
            self.play(&mut gpu);
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

    /// Answers all requests, or those up to one that fails. Where it can settle, repeated steps and micro-batches may be told from the
    /// one before them; false where that went wrong.
    pub(super) fn play(&self, gpu: &mut Gpu<'_>) -> bool {
        let mut course = Course::new(&self.entries, &self.asides, 0);
        let Some(repeat) = &self.repeat else {
            gpu.play(&mut course, &self.marks, Rounds { all: &self.rounds, first: 0 }, |id| id);
            return gpu.is_right;
        };
        let (before, repeated) = self.marks.split_at(repeat.start.mark);
        let start = repeat.start.entry;
        let first_phase = repeated.first().map_or(0, |mark| mark.end - start);
        let frees = leading_frees(&self.entries[start..start + first_phase]);
        let rounds = Rounds { all: &self.rounds, first: repeat.start.mark };
        if !gpu.play(&mut course, before, Rounds { first: 0, ..rounds }, |id| id)
            || !gpu.advance(&mut course, start + frees, |id| id)
        {
            return gpu.is_right;
        }
        let mut lying = Lying::between_steps(gpu, repeat, |id| id);
        if !gpu.play(&mut course, repeated, rounds, |id| id) {
            return gpu.is_right;
        }
        let mut settled: Option<Settled> = None;
        self.each_repeat(|number, entries, asides, renumber| {
            let renumber = |id| renumber.renumber(id);
            let mut course = Course::new(entries, asides, start);
            if settled.is_none() {
                if !gpu.advance(&mut course, start + frees, renumber) {
                    return false;
                }
                let now = Lying::between_steps(gpu, repeat, renumber);
                settled = now.settles(&lying, gpu, repeated.len());
                lying = now;
            }
            if let Some(settled) = settled {
                return gpu.repeat_step(settled, course.left(), entries.len(), repeated.len(), renumber);
            }
            let later = |mark: &Mark| Mark { step: mark.step.map(|step| step + number), ..*mark };
            let marks: Vec<Mark> = repeated.iter().map(later).collect();
            gpu.play(&mut course, &marks, rounds, renumber)
        });
        gpu.is_right
    }
}

/// How many requests come before the first for memory.
fn leading_frees(entries: &[Entry]) -> usize {
    entries.iter().take_while(|entry| matches!(entry, Entry::Free { .. })).count()
}

/// The rounds of a program, for phases of which the first has this mark.
#[derive(Clone, Copy)]
struct Rounds<'p> {
    all: &'p [Round],
    first: usize,
}

impl<'p> Rounds<'p> {
    /// The round of which a micro-batch begins with this phase, and which one of it.
    fn beginning(self, phase: usize) -> Option<(&'p Round, usize)> {
        self.all.iter().find_map(|round| Some((round, round.begins(self.first + phase)?)))
    }
}

/// Requests and what happens between them, as far as they are not answered yet.
pub(super) struct Course<'p> {
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

    /// The next so many requests, and what happens among them; they count as answered.
    pub(super) fn skip(&mut self, count: usize) -> (&'p [Entry], Vec<Aside>) {
        let skipped = &self.entries[self.done..self.done + count];
        self.done += count;
        let end = self.start + self.done;
        (skipped, std::iter::from_fn(|| self.asides.next_if(|aside| aside.at <= end).copied()).collect())
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
    /// By the requests' numbers; none beyond its end.
    held: Vec<Option<Held>>,
    /// How many plans PyTorch has gone on in cuDNN's lists, by the plans' numbers.
    pub fallbacks: Vec<u8>,
    plans: &'p PlanTable,
    /// The workspaces that plans have, where the requests do not say it.
    assumption: Option<Assumption>,
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
    /// Whether what is repeated may be told from what came before.
    pub can_settle: bool,
    /// False where that went wrong.
    pub is_right: bool,
}

impl<'p> Gpu<'p> {
    pub(super) fn new(allocator: Allocator<SimulatedDriver>, program: &'p Program, keeps_journal: bool) -> Gpu<'p> {
        Gpu {
            allocator,
            held: Vec::with_capacity(program.next_id as usize),
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
            can_settle: true,
            is_right: true,
        }
    }

    /// What the program holds under this number.
    pub(super) fn held(&self, id: u32) -> Option<Held> {
        self.held.get(id as usize).copied().flatten()
    }

    /// The same, to be changed.
    pub(super) fn held_mut(&mut self, id: u32) -> Option<&mut Held> {
        self.held.get_mut(id as usize)?.as_mut()
    }

    /// It holds memory under this number now.
    #[inline]
    pub(super) fn hold(&mut self, id: u32, held: Held) {
        let id = id as usize;
        if id >= self.held.len() {
            self.held.resize(id + 1, None);
        }
        self.held[id] = Some(held);
    }

    /// And no longer.
    #[inline]
    pub(super) fn let_go(&mut self, id: u32) -> Option<Held> {
        self.held.get_mut(id as usize)?.take()
    }

    /// Answers the requests of these phases, among which `rounds` do the same one after the other; false where one failed.
    fn play(
        &mut self,
        course: &mut Course<'_>,
        marks: &[Mark],
        rounds: Rounds<'_>,
        number: impl Fn(u32) -> u32,
    ) -> bool {
        let mut lying: Option<Lying> = None;
        let mut at = 0;
        while let Some(mark) = marks.get(at) {
            if let Some((round, first)) = rounds.beginning(at) {
                let now = Lying::in_round(self, round, first, &number);
                // The last is answered: what follows it may begin otherwise than it does itself.
                let before = lying.as_ref().filter(|_| first > 0 && first + 1 < round.count());
                if let Some(settled) = before.and_then(|before| now.settles(before, self, round.phases)) {
                    if !self.repeat_round(settled, course, round, first, &number) {
                        return false;
                    }
                    at += (round.count() - 1 - first) * round.phases;
                    continue;
                }
                lying = Some(now);
            }
            let goes_on = self.advance(course, mark.end, &number);
            self.end(mark);
            if !goes_on {
                return false;
            }
            at += 1;
        }
        true
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
    fn passes(&mut self, bytes: u64, place: u32, category: Category, plan: Option<PlanId>) -> bool {
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
        let Some(size) = self.allocator.peek_transient(bytes) else { return false };
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
    pub(super) fn wanted(&self, bytes: u64, plan: Option<PlanId>) -> u64 {
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
                    None => match self.allocator.allocate(bytes, 0, MempoolId::DEFAULT) {
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
                self.hold(id, Held { block, category });
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
                if let Some(Held { block, category }) = self.let_go(number(id)) {
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
    fn allocate_workspace(&mut self, bytes: u64, plan: PlanId) -> Option<BlockId> {
        let bytes = self.wanted(bytes, Some(plan));
        if bytes == 0 {
            return None;
        }
        let number = plan.get() as usize;
        if self.fallbacks.len() <= number {
            self.fallbacks.resize(number + 1, 0);
        }
        let fallbacks = self.plans.fallbacks(plan, bytes);
        loop {
            let wanted = match usize::from(self.fallbacks[number]) {
                0 => bytes,
                gone_on => *fallbacks.get(gone_on - 1)?,
            };
            match if wanted > 0 { self.allocator.allocate(wanted, 0, MempoolId::DEFAULT).ok() } else { None } {
                Some(block) => return Some(block),
                None => self.fallbacks[number] += 1,
            }
        }
    }

    fn recount(&mut self, id: u32, category: Category) {
        self.leave_peak();
        if let Some(held) = self.held_mut(id) {
            let Held { block, category: before } = std::mem::replace(held, Held { category, ..*held });
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
