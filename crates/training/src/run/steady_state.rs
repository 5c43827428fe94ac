//! Repeated steps and micro-batches that need not be answered request by request.
//!
//! The large and the small pool of the allocator do not affect each other, and each block of the small pool is exactly as
//! large as its request needs, so the live bytes there do not depend on addresses. Once all memory of the large pool is
//! where it was at the same point of the step before, and no segment has been allocated or freed since, the step gives the
//! same results as that one. It then only remains to see that the small pool needs no new segment either, unless all its
//! memory is where it was, too.

use vramfit_allocator::MempoolId;
use vramfit_allocator::size::SMALL_REQUEST;
use vramfit_eager::memory::{Entry, SideEventKind};

use super::answering::{Answering, LiveBlock, Requests};
use crate::program::{MicroBatchRun, Repeat};
use crate::report::{Account, Peak, PhaseReport};

/// An address and a size.
type Location = (u64, u64);

/// Where live memory is at a point of a repeated step before its first allocation.
pub(super) struct MemoryLayout {
    /// What each step replaces in the large pool.
    large: Vec<Option<Location>>,
    /// What each step replaces in the small pool.
    small: Vec<Option<Location>>,
    account: Account,
    /// What the large and the small pool have taken from the driver so far, and what they still have of it.
    segments: [(u64, u64); 2],
    /// How often cuDNN has fallen back to a plan with a smaller workspace.
    fallbacks: u32,
    /// The peak of live bytes in the phase so far.
    peak: u64,
}

impl MemoryLayout {
    /// Of a step, after the frees with which it begins.
    pub(super) fn between_steps(
        answering: &Answering<'_>,
        repeat: &Repeat,
        renumber: impl Fn(u32) -> u32,
    ) -> MemoryLayout {
        let fresh = repeat.before.iter().zip(&repeat.after).filter(|(before, after)| before != after);
        MemoryLayout::of(answering, fresh.map(|(&before, _)| renumber(before)))
    }

    /// Before a micro-batch of a run.
    pub(super) fn in_run(
        answering: &Answering<'_>,
        run: &MicroBatchRun,
        which: usize,
        renumber: impl Fn(u32) -> u32,
    ) -> MemoryLayout {
        MemoryLayout::of(answering, run.fresh(which).map(renumber))
    }

    fn of(answering: &Answering<'_>, fresh: impl Iterator<Item = u32>) -> MemoryLayout {
        let statistics = answering.allocator.statistics();
        let location = |id: u32| {
            let block = answering.allocator.block(answering.live(id)?.block);
            Some((block.address, block.size))
        };
        let is_large = |location: &Location| location.1 > SMALL_REQUEST;
        let (large, small) = fresh.map(location).map(|it| (it.filter(is_large), it.filter(|it| !is_large(it)))).unzip();
        MemoryLayout {
            large,
            small,
            account: answering.account,
            segments: [statistics.reserved_bytes.large_pool, statistics.reserved_bytes.small_pool]
                .map(|reserved| (reserved.allocated, reserved.current)),
            fallbacks: answering.fallbacks.iter().map(|fallbacks| u32::from(*fallbacks)).sum(),
            peak: answering.peak.allocated,
        }
    }

    /// Whether the step or micro-batch that begins here goes as the last one, which had `phases` phases and began with the
    /// layout `before`.
    pub(super) fn steady_since(
        &self,
        before: &MemoryLayout,
        answering: &Answering<'_>,
        phases: usize,
    ) -> Option<SteadyState> {
        let first = &answering.phases[answering.phases.len() - phases];
        let is_steady = answering.labels.is_none()
            && answering.are_pools_apart()
            && first.peak.allocated > self.peak.max(before.peak)
            && self.segments == before.segments
            && self.account == before.account
            && self.large == before.large;
        is_steady.then(|| if self.small == before.small { SteadyState::BothPools } else { SteadyState::LargePool })
    }

    /// Whether the large pool is as it was, and so will serve the same requests in the same way.
    pub(super) fn has_large_of(&self, other: &MemoryLayout) -> bool {
        self.segments[0] == other.segments[0] && self.fallbacks == other.fallbacks && self.large == other.large
    }

    /// Whether the small pool is as it was.
    pub(super) fn has_small_of(&self, other: &MemoryLayout) -> bool {
        self.segments[1] == other.segments[1] && self.small == other.small
    }
}

/// Which memory is where it was at the same point of the step before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SteadyState {
    BothPools,
    LargePool,
}

impl Answering<'_> {
    /// Whether each pool can be answered without the other.
    pub(super) fn are_pools_apart(&self) -> bool {
        self.uses_steady_state
            && self.allocator.has_exact_small_blocks()
            && self.fallbacks.iter().all(|fallbacks| *fallbacks == 0)
    }

    /// Repeats the results of the last step for a step with `count` requests and `phases` phases, of which the requests
    /// `left` are not answered yet. False where the small pool needs a new segment. After a step with both pools in steady
    /// state all that follow are.
    pub(super) fn repeat_step(
        &mut self,
        steady: SteadyState,
        left: &[Entry],
        count: usize,
        phases: usize,
        renumber: impl Fn(u32) -> u32,
    ) -> bool {
        if steady == SteadyState::LargePool {
            self.answer_small_pool(left, renumber);
        }
        self.repeat_phases(phases, count, |phase| PhaseReport { step: phase.step.map(|step| step + 1), ..phase });
        self.is_valid
    }

    /// Repeats the results of the last micro-batch for those of a run from number `first` up to the one before the last.
    /// False where the small pool needs a new segment.
    pub(super) fn repeat_micro_batches(
        &mut self,
        steady: SteadyState,
        requests: &mut Requests<'_>,
        run: &MicroBatchRun,
        first: usize,
        renumber: impl Fn(u32) -> u32,
    ) -> bool {
        let last = run.count() - 1;
        let repeated = last - first;
        let count = repeated * run.entries;
        let (entries, side_events) = requests.skip(count);
        if steady == SteadyState::LargePool {
            self.answer_small_pool(entries, &renumber);
            for side_event in side_events {
                if let SideEventKind::CategoryChanged { id, category } = side_event.kind
                    && let Some(live) = self.live_mut(renumber(id))
                {
                    live.category = category;
                }
            }
        }
        // An allocation that was not answered is where the one was whose role it has.
        for (before, after) in run.fresh(first).zip(run.fresh(last)) {
            if let Some(live) = self.live(renumber(before))
                && (steady == SteadyState::BothPools || self.allocator.block(live.block).size > SMALL_REQUEST)
            {
                self.remove_live(renumber(before));
                self.add_live(renumber(after), live);
            }
        }
        for _ in 0..repeated {
            self.repeat_phases(run.phases, run.entries, |phase| PhaseReport {
                micro: phase.micro.map(|micro| micro + 1),
                ..phase
            });
        }
        self.instant += count as u32;
        self.peak.instant += count as u32;
        self.is_valid
    }

    /// Adds the last `phases` phases again, `requests` requests later.
    fn repeat_phases(&mut self, phases: usize, requests: usize, change: impl Fn(PhaseReport) -> PhaseReport) {
        let requests = requests as u32;
        for index in self.phases.len() - phases..self.phases.len() {
            let phase = self.phases[index];
            let peak = Peak { instant: phase.peak.instant + requests, ..phase.peak };
            self.phases.push(change(PhaseReport { peak, end: phase.end + requests, ..phase }));
        }
    }

    /// Answers the requests of the small pool from its free blocks; without a fitting one the answers are not valid.
    pub(super) fn answer_small_pool(&mut self, left: &[Entry], renumber: impl Fn(u32) -> u32) {
        for entry in left {
            match *entry {
                Entry::Allocate { id, bytes, category, plan, .. } => {
                    let bytes = self.wanted(bytes, plan);
                    if bytes == 0 || bytes > SMALL_REQUEST {
                        continue;
                    }
                    let Some(block) = self.allocator.allocate_cached(bytes, 0, MempoolId::DEFAULT) else {
                        self.is_valid = false;
                        return;
                    };
                    self.add_live(renumber(id), LiveBlock { block, category });
                }
                Entry::Free { id } => {
                    if let Some(LiveBlock { block, .. }) = self.live(renumber(id))
                        && self.allocator.block(block).size <= SMALL_REQUEST
                    {
                        self.remove_live(renumber(id));
                        self.allocator.free(block);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vramfit_allocator::{Allocator, Settings, SimulatedDriver};

    use super::*;
    use crate::program::{Mark, Position, Program};
    use crate::report::Phase;
    use vramfit_eager::memory::{Category, Stream};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A run with weights in allocation 0, whose steps make `requests` in order, by id and bytes; 0 bytes is a free. Ids
    /// count from 1 within a step; `last` is what the step leaves behind, and 0 frees what the step before left.
    fn program(requests: &[(u32, u64)], last: u32, repeated: u32) -> Program {
        let allocate = |id, bytes| Entry::Allocate {
            id,
            bytes,
            origin: 0,
            category: Category::Temporary,
            stream: Stream::Compute,
            plan: None,
        };
        let allocations = requests.iter().map(|(id, _)| *id).max().unwrap_or(0);
        let mut entries = vec![allocate(0, 4 * MIB)];
        let mark = |step, end| Mark { phase: Phase::Forward, step, micro: None, end };
        let mut marks = vec![Mark { phase: Phase::Build, ..mark(None, 1) }];
        let mut start = Position::default();
        for step in 0..2 {
            start = Position { entry: entries.len(), side_event: 0, mark: marks.len(), id: 1 + step * allocations };
            for &(id, bytes) in requests {
                let number = step * allocations + id;
                match (id, bytes) {
                    (0, _) if step == 0 => {}
                    (0, _) => entries.push(Entry::Free { id: (step - 1) * allocations + last }),
                    (_, 0) => entries.push(Entry::Free { id: number }),
                    _ => entries.push(allocate(number, bytes)),
                }
            }
            marks.push(mark(Some(step), entries.len()));
        }
        let next_id = 1 + 2 * allocations;
        let (before, after) = (vec![0, last], vec![0, allocations + last]);
        let repeat = Some(Repeat { count: repeated, possible: repeated, start, next_id, before, after });
        Program { entries: Arc::new(entries), next_id, marks, repeat, answers_steady_state: true, ..Program::default() }
    }

    fn answers(program: &Program, uses_steady_state: bool) -> (bool, u32, Vec<PhaseReport>) {
        let driver = SimulatedDriver::in_process(u64::MAX);
        let mut answering =
            Answering::new(Allocator::with_reduced_statistics(Settings::default(), driver), program, false);
        answering.uses_steady_state = uses_steady_state;
        let is_valid = program.answer(&mut answering, 0);
        (is_valid, answering.instant, answering.phases)
    }

    #[test]
    fn a_step_in_steady_state_repeats_the_results_of_the_one_before() {
        let steps = [(0, 0), (1, 30 * MIB), (2, 700), (3, 512), (4, 3 * MIB), (1, 0), (2, 0), (4, 0)];
        let program = program(&steps, 3, 4);
        let (is_valid, answered, phases) = answers(&program, true);
        let (_, all, whole) = answers(&program, false);
        assert!(is_valid && phases.len() == 7);
        assert_eq!(phases, whole);
        let simulated = program.entries.len() as u32;
        assert_eq!((answered, all), (simulated + 1, simulated + 4 * steps.len() as u32));
    }

    #[test]
    fn memory_that_moves_from_step_to_step_is_not_a_steady_state() {
        let steps = [(1, 30 * MIB), (3, 3 * MIB), (1, 0), (0, 0)];
        let program = program(&steps, 3, 1);
        let (is_valid, answered, phases) = answers(&program, true);
        let (_, all, whole) = answers(&program, false);
        assert!(is_valid && answered == all);
        assert_eq!(phases, whole);
    }

    #[test]
    fn a_step_whose_small_pool_needs_a_new_segment_is_answered_in_full() {
        // From the second step on, what a step leaves behind is in the middle of the segment, and no whole mebibyte is free.
        let steps = [(1, MIB), (1, 0), (2, 256 * KIB), (3, 512 * KIB), (4, 30 * MIB), (0, 0), (2, 0), (4, 0)];
        let mut program = program(&steps, 3, 2);
        let entries = Arc::make_mut(&mut program.entries);
        entries.retain(|entry| !matches!(entry, Entry::Allocate { id: 1 | 2, .. } | Entry::Free { id: 1 | 2 }));
        let removed = program.marks[1].end - 1 - 3;
        program.marks[1..].iter_mut().for_each(|mark| mark.end -= removed);
        program.repeat.iter_mut().for_each(|repeat| repeat.start.entry -= removed);
        assert!(!answers(&program, true).0);
        let whole = answers(&program, false).2;
        let [.., second, third, _] = whole[..] else { panic!("{whole:?}") };
        assert_eq!(third.reserved, second.reserved + 2 * MIB);
        assert_eq!(program.run(Settings::default(), SimulatedDriver::in_process(u64::MAX)).phases, whole);
    }
}
