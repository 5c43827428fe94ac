//! Repeated steps that need not be answered request by request.
//!
//! The two pools of the allocator know nothing of each other, and in the small one every block is as large as its request needs: how
//! much is allocated there does not depend on where. So once all memory of the large pool lies where it lay at the same instant of
//! the step before, and no segment has come or gone since, the step goes as that one did; what is left to see is that the
//! small pool does without the driver again, unless all lies there as it did too. The same holds for micro-batches.

use vramfit_allocator::MempoolId;
use vramfit_allocator::size::SMALL_REQUEST;

use super::answer::{Course, Gpu, Held};
use super::program::{Repeat, Round};
use super::report::{Account, Peak, PhaseReport};
use vramfit_eager::memory::{Entry, Happening};

/// How memory lies at an instant of a repeated step at which it has asked for nothing yet.
pub(super) struct Lying {
    /// Addresses and sizes in the large pool of what comes anew each time.
    large: Vec<Option<(u64, u64)>>,
    /// The same in the small pool.
    small: Vec<Option<(u64, u64)>>,
    account: Account,
    /// How often memory was taken from the driver or given back to it.
    changes: u64,
    /// The most that was allocated in the phase so far.
    peak: u64,
}

impl Lying {
    /// Where a step has let go of what it lets go of before it asks for anything.
    pub(super) fn between_steps(gpu: &Gpu<'_>, repeat: &Repeat, number: impl Fn(u32) -> u32) -> Lying {
        let fresh = repeat.before.iter().zip(&repeat.after).filter(|(before, after)| before != after);
        Lying::of(gpu, fresh.map(|(&before, _)| number(before)))
    }

    /// Before the micro-batch of this number in a round.
    pub(super) fn in_round(gpu: &Gpu<'_>, round: &Round, which: usize, number: impl Fn(u32) -> u32) -> Lying {
        Lying::of(gpu, round.fresh(which).map(number))
    }

    fn of(gpu: &Gpu<'_>, fresh: impl Iterator<Item = u32>) -> Lying {
        let statistics = gpu.allocator.statistics();
        let place = |id: u32| {
            let block = gpu.allocator.block(gpu.held(id)?.block);
            Some((block.address, block.size))
        };
        let is_large = |place: &(u64, u64)| place.1 > SMALL_REQUEST;
        let (large, small) = fresh.map(place).map(|it| (it.filter(is_large), it.filter(|it| !is_large(it)))).unzip();
        Lying {
            large,
            small,
            account: gpu.account,
            changes: statistics.device_alloc + statistics.device_free,
            peak: gpu.peak.allocated,
        }
    }

    /// Whether the step or micro-batch goes from here as the one before it went from `before`. That one was the last, with so many
    /// phases.
    pub(super) fn settles(&self, before: &Lying, gpu: &Gpu<'_>, phases: usize) -> Option<Settled> {
        let first = &gpu.phases[gpu.phases.len() - phases];
        let is_settled = gpu.can_settle
            && gpu.labels.is_none()
            && gpu.allocator.has_exact_small_blocks()
            && gpu.fallbacks.iter().all(|gone_on| *gone_on == 0)
            && first.peak.allocated > self.peak.max(before.peak)
            && self.changes == before.changes
            && self.account == before.account
            && self.large == before.large;
        is_settled.then(|| if self.small == before.small { Settled::Wholly } else { Settled::Large })
    }
}

/// What goes as it went before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// All of it.
    Wholly,
    /// What lies in the large pool.
    Large,
}

impl Gpu<'_> {
    /// A step goes as the one before it did, from the first of the requests `left` of its `count` on; it has so many phases. False where the small
    /// pool would have to ask the driver. Where one step goes wholly as the one before, all that follow do.
    pub(super) fn repeat_step(
        &mut self,
        settled: Settled,
        left: &[Entry],
        count: usize,
        phases: usize,
        number: impl Fn(u32) -> u32,
    ) -> bool {
        if settled == Settled::Large {
            self.answer_small(left, number);
        }
        self.repeat_phases(phases, count, |phase| PhaseReport { step: phase.step.map(|step| step + 1), ..phase });
        self.is_right
    }

    /// The micro-batches of a round from the one of this number to before the last go as the one before it did. False as above.
    pub(super) fn repeat_round(
        &mut self,
        settled: Settled,
        course: &mut Course<'_>,
        round: &Round,
        first: usize,
        number: impl Fn(u32) -> u32,
    ) -> bool {
        let last = round.count() - 1;
        let left = last - first;
        let count = left * round.entries;
        let (entries, asides) = course.skip(count);
        if settled == Settled::Large {
            self.answer_small(entries, &number);
            for aside in asides {
                if let Happening::Recount { id, category } = aside.what
                    && let Some(held) = self.held_mut(number(id))
                {
                    held.category = category;
                }
            }
        }
        // Each piece that goes as before lies where that lay whose place it has taken.
        for (before, after) in round.fresh(first).zip(round.fresh(last)) {
            if let Some(held) = self.held(number(before))
                && (settled == Settled::Wholly || self.allocator.block(held.block).size > SMALL_REQUEST)
            {
                self.let_go(number(before));
                self.hold(number(after), held);
            }
        }
        for _ in 0..left {
            self.repeat_phases(round.phases, round.entries, |phase| PhaseReport {
                micro: phase.micro.map(|micro| micro + 1),
                ..phase
            });
        }
        self.instant += count as u32;
        self.peak.instant += count as u32;
        self.is_right
    }

    /// The last so many phases again, after so many requests.
    fn repeat_phases(&mut self, phases: usize, requests: usize, change: impl Fn(PhaseReport) -> PhaseReport) {
        let requests = requests as u32;
        for index in self.phases.len() - phases..self.phases.len() {
            let phase = self.phases[index];
            let peak = Peak { instant: phase.peak.instant + requests, ..phase.peak };
            self.phases.push(change(PhaseReport { peak, end: phase.end + requests, ..phase }));
        }
    }

    /// Answers the requests of the small pool from its cache; where that lacks a block, nothing is right any more.
    fn answer_small(&mut self, mut left: &[Entry], number: impl Fn(u32) -> u32) {
        while let [entry, after @ ..] = left {
            left = after;
            match *entry {
                Entry::Allocate { id, bytes, category, plan, .. } => {
                    let bytes = self.wanted(bytes, plan);
                    if bytes == 0 || bytes > SMALL_REQUEST {
                        continue;
                    }
                    if let [Entry::Free { id: freed }, after @ ..] = after
                        && *freed == id
                        && self.allocator.peek_transient(bytes).is_some()
                    {
                        left = after;
                        continue;
                    }
                    let Some(block) = self.allocator.allocate_cached(bytes, 0, MempoolId::DEFAULT) else {
                        self.is_right = false;
                        return;
                    };
                    self.hold(number(id), Held { block, category });
                }
                Entry::Free { id } => {
                    if let Some(Held { block, .. }) = self.held(number(id))
                        && self.allocator.block(block).size <= SMALL_REQUEST
                    {
                        self.let_go(number(id));
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
    use crate::training::Phase;
    use crate::training::program::{Mark, Position, Program};
    use vramfit_eager::memory::Category;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A run with weights in memory 0, whose steps ask for `requests` in order, by number and bytes; 0 bytes let go. Numbers count from 1 within a
    /// step; `last` is what it leaves behind, and 0 is what the step before left.
    fn program(requests: &[(u32, u64)], last: u32, repeated: u32) -> Program {
        let allocate = |id, bytes| Entry::Allocate { id, bytes, place: 0, category: Category::Temporary, plan: None };
        let made = requests.iter().map(|(id, _)| *id).max().unwrap_or(0);
        let mut entries = vec![allocate(0, 4 * MIB)];
        let mark = |step, end| Mark { phase: Phase::Forward, step, micro: None, end };
        let mut marks = vec![Mark { phase: Phase::Build, ..mark(None, 1) }];
        let mut start = Position::default();
        for step in 0..2 {
            start = Position { entry: entries.len(), aside: 0, mark: marks.len(), id: 1 + step * made };
            for &(id, bytes) in requests {
                let number = step * made + id;
                match (id, bytes) {
                    (0, _) if step == 0 => {}
                    (0, _) => entries.push(Entry::Free { id: (step - 1) * made + last }),
                    (_, 0) => entries.push(Entry::Free { id: number }),
                    _ => entries.push(allocate(number, bytes)),
                }
            }
            marks.push(mark(Some(step), entries.len()));
        }
        let next_id = 1 + 2 * made;
        let (before, after) = (vec![0, last], vec![0, made + last]);
        let repeat = Some(Repeat { count: repeated, start, next_id, before, after });
        Program { entries: Arc::new(entries), next_id, marks, repeat, ..Program::default() }
    }

    fn played(program: &Program, can_settle: bool) -> (bool, u32, Vec<PhaseReport>) {
        let driver = SimulatedDriver::in_process(u64::MAX);
        let mut gpu = Gpu::new(Allocator::with_reduced_statistics(Settings::default(), driver), program, false);
        gpu.can_settle = can_settle;
        let is_right = program.play(&mut gpu);
        (is_right, gpu.instant, gpu.phases)
    }

    #[test]
    fn a_settled_step_is_told_from_the_one_before_it() {
        let steps = [(0, 0), (1, 30 * MIB), (2, 700), (3, 512), (4, 3 * MIB), (1, 0), (2, 0), (4, 0)];
        let program = program(&steps, 3, 4);
        let (is_right, answered, phases) = played(&program, true);
        let (_, all, whole) = played(&program, false);
        assert!(is_right && phases.len() == 7);
        assert_eq!(phases, whole);
        let simulated = program.entries.len() as u32;
        assert_eq!((answered, all), (simulated + 1, simulated + 4 * steps.len() as u32));
    }

    #[test]
    fn memory_that_lies_elsewhere_than_before_does_not_settle() {
        let steps = [(1, 30 * MIB), (3, 3 * MIB), (1, 0), (0, 0)];
        let program = program(&steps, 3, 1);
        let (is_right, answered, phases) = played(&program, true);
        let (_, all, whole) = played(&program, false);
        assert!(is_right && answered == all);
        assert_eq!(phases, whole);
    }

    #[test]
    fn a_step_whose_small_pool_has_to_ask_the_driver_is_answered_in_full() {
        // What a step leaves behind lies in the middle of the segment from the second on, and then there is no whole mebibyte.
        let steps = [(1, MIB), (1, 0), (2, 256 * KIB), (3, 512 * KIB), (4, 30 * MIB), (0, 0), (2, 0), (4, 0)];
        let mut program = program(&steps, 3, 2);
        let entries = Arc::make_mut(&mut program.entries);
        entries.retain(|entry| !matches!(entry, Entry::Allocate { id: 1 | 2, .. } | Entry::Free { id: 1 | 2 }));
        let removed = program.marks[1].end - 1 - 3;
        program.marks[1..].iter_mut().for_each(|mark| mark.end -= removed);
        program.repeat.iter_mut().for_each(|repeat| repeat.start.entry -= removed);
        assert!(!played(&program, true).0);
        let whole = played(&program, false).2;
        let [.., second, third, _] = whole[..] else { panic!("{whole:?}") };
        assert_eq!(third.reserved, second.reserved + 2 * MIB);
        assert_eq!(program.run(Settings::default(), SimulatedDriver::in_process(u64::MAX)).phases, whole);
    }
}
