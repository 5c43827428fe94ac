//! An allocator answers a program's requests.

use vramfit_allocator::{Allocator, Block, BlockId, OutOfMemory, SegmentChange, Settings, SimulatedDriver};
use vramfit_trace::snapshot::PoolId;

use super::program::{Mark, Program};
use super::report::{Account, Failure, Label, Peak, Phase, PhaseReport, Run};
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
        let mut gpu = Gpu::new(Allocator::brief(settings, driver), self);
        gpu.labels = keeps_journal.then(Vec::new);
        let mut goes_on = gpu.play(&self.entries, &self.asides, 0, &self.marks, |id| id);
        if goes_on && let Some(repeat) = &self.repeat {
            let start = repeat.start.entry;
            self.each_repeat(|number, entries, asides, renumber| {
                let later = |mark: &Mark| Mark { step: mark.step.map(|step| step + number), ..*mark };
                let marks: Vec<Mark> = self.marks[repeat.start.mark..].iter().map(later).collect();
                goes_on = gpu.play(entries, asides, start, &marks, |id| renumber.renumber(id));
                goes_on
            });
        }
        let built = gpu.phases.iter().filter(|phase| phase.phase != Phase::Build);
        let peak_reserved = built.map(|phase| phase.peak_reserved).max().unwrap_or(0);
        Run {
            phases: gpu.phases,
            peak_reserved,
            missing: self.missing.clone(),
            guessed: self.guessed.clone(),
            libraries: self.libraries,
            guess: self.guess,
            failure: gpu.failure,
            journal: if keeps_journal { self.journal() } else { Vec::new() },
            labels: gpu.labels.unwrap_or_default(),
            segments: gpu.segments,
        }
    }
}

/// Memory that the program holds.
#[derive(Clone, Copy)]
struct Held {
    block: BlockId,
    category: Category,
}

/// A GPU at work.
struct Gpu<'p> {
    allocator: Allocator<SimulatedDriver>,
    /// By the requests' numbers.
    held: Vec<Option<Held>>,
    /// How many plans PyTorch has gone on in cuDNN's lists, by the plans' numbers.
    fallbacks: Vec<u8>,
    plans: &'p PlanTable,
    /// The workspaces that plans have, where the requests do not say it.
    assumption: Option<Guess>,
    account: Account,
    peak: Peak,
    place: u32,
    instant: u32,
    phases: Vec<PhaseReport>,
    labels: Option<Vec<Label>>,
    segments: Vec<(u32, SegmentChange)>,
    failure: Option<Failure>,
}

impl<'p> Gpu<'p> {
    fn new(allocator: Allocator<SimulatedDriver>, program: &'p Program) -> Gpu<'p> {
        Gpu {
            allocator,
            held: vec![None; program.allocation_count()],
            fallbacks: Vec::new(),
            plans: &program.plans,
            assumption: program.is_reassumed.then_some(program.guess),
            account: Account::default(),
            peak: Peak::default(),
            place: 0,
            instant: 0,
            phases: Vec::new(),
            labels: None,
            segments: Vec::new(),
            failure: None,
        }
    }

    /// Answers requests, before which `start` others came; false where one failed.
    fn play(
        &mut self,
        entries: &[Entry],
        asides: &[Aside],
        start: usize,
        marks: &[Mark],
        number: impl Fn(u32) -> u32,
    ) -> bool {
        let mut asides = asides.iter().peekable();
        let mut done = 0;
        for mark in marks {
            let end = mark.end - start;
            while done < end {
                // Up to the next aside the requests are all there is.
                let stop = asides.peek().map_or(end, |aside| (aside.at - start).min(end));
                while done < stop {
                    if let [Entry::Allocate { id, bytes, place, category, plan }, Entry::Free { id: freed }, ..] =
                        entries[done..stop]
                        && id == freed
                        && self.passes(bytes, place, category, plan)
                    {
                        done += 2;
                        continue;
                    }
                    if !self.answer(&entries[done], &number) {
                        self.end(mark);
                        return false;
                    }
                    done += 1;
                }
                while let Some(aside) = asides.next_if(|aside| aside.at - start == done) {
                    match aside.what {
                        Happening::Recount { id, category } => self.recount(number(id), category),
                        Happening::LocalMemoryGrows => self.allocator.driver().grow_local_memory(),
                        Happening::LibraryTakes(bytes) => self.allocator.driver().library_takes(bytes),
                        Happening::HostFrees(bytes) => self.allocator.driver().host_frees(bytes),
                    }
                }
            }
            self.end(mark);
        }
        true
    }

    /// Whether memory that is let go of at once can be told from the cache alone; then it has been counted.
    #[inline]
    fn passes(&mut self, bytes: u64, place: u32, category: Category, plan: Option<Plan>) -> bool {
        if self.labels.is_some() {
            return false;
        }
        let bytes = match plan {
            Some(plan) if self.fallbacks.get(plan.get() as usize).is_some_and(|gone_on| *gone_on > 0) => return false,
            Some(plan) => self.assumption.map_or(bytes, |assumption| self.plans.own(plan, assumption)),
            None => bytes,
        };
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
        }
        self.instant += 2;
        self.place = place;
        true
    }

    #[inline]
    fn answer(&mut self, entry: &Entry, number: &impl Fn(u32) -> u32) -> bool {
        self.instant += 1;
        match *entry {
            Entry::Allocate { id, bytes, place, category, plan } => {
                self.place = place;
                let block = match self.allocate(bytes, plan) {
                    Ok(block) => block,
                    Err(error) => {
                        self.failure = Some(Failure { error, place });
                        return false;
                    }
                };
                self.note_segments();
                let id = number(id);
                let Some(block) = block else { return true };
                self.held[id as usize] = Some(Held { block, category });
                self.label(id, block, category);
                let bytes = self.allocator.block(block).requested;
                self.account.requested[category as usize] += bytes;
                self.account.rounding += self.allocator.block(block).size - bytes;
                let allocated = self.allocator.allocated_bytes();
                if allocated > self.peak.allocated {
                    self.peak = Peak { allocated, account: self.account, place, instant: self.instant };
                }
            }
            Entry::Free { id } => {
                if let Some(Held { block, category }) = self.held[number(id) as usize].take() {
                    let Block { size, requested, .. } = *self.allocator.block(block);
                    self.account.requested[category as usize] -= requested;
                    self.account.rounding -= size - requested;
                    self.allocator.free(block);
                }
            }
        }
        true
    }

    /// A block; of a plan of cuDNN's, the workspace of the first one for which there is room, from where PyTorch has got to on:
    /// what it has found, it keeps to. `None` is the last, which needs none.
    #[inline]
    fn allocate(&mut self, bytes: u64, plan: Option<Plan>) -> Result<Option<BlockId>, OutOfMemory> {
        let Some(plan) = plan else { return self.allocator.allocate(bytes, 0, PoolId::DEFAULT).map(Some) };
        self.allocate_workspace(bytes, plan)
    }

    fn allocate_workspace(&mut self, bytes: u64, plan: Plan) -> Result<Option<BlockId>, OutOfMemory> {
        let bytes = self.assumption.map_or(bytes, |assumption| self.plans.own(plan, assumption));
        if bytes == 0 {
            return Ok(None);
        }
        let number = plan.get() as usize;
        if self.fallbacks.len() <= number {
            self.fallbacks.resize(number + 1, 0);
        }
        let lesser = self.plans.instead_of(plan, bytes);
        loop {
            let wanted = match usize::from(self.fallbacks[number]) {
                0 => bytes,
                gone_on => match lesser.get(gone_on - 1) {
                    Some(&wanted) => wanted,
                    None => return Ok(None),
                },
            };
            match if wanted > 0 { self.allocator.allocate(wanted, 0, PoolId::DEFAULT).ok() } else { None } {
                Some(block) => return Ok(Some(block)),
                None => self.fallbacks[number] += 1,
            }
        }
    }

    fn recount(&mut self, id: u32, category: Category) {
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
