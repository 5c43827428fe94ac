//! The requests of a run, in order: recorded once, answered under any settings of the allocator.

use std::sync::Arc;

use vramfit_allocator::Settings;
use vramfit_allocator::size::block_size;
use vramfit_cudnn::convolution::{Assumption, PlanTable};
use vramfit_eager::autograd::{CudnnSources, Guessed, Libraries};
use vramfit_eager::forward::Missing;
use vramfit_eager::memory::{Entry, SideEvent};

use crate::report::Phase;

/// The requests of a run. They do not depend on the allocator's settings or the GPU's memory, so one program serves every
/// cap.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The simulated requests.
    pub(crate) entries: Arc<Vec<Entry>>,
    /// The id of the next allocation.
    pub(crate) next_id: u32,
    /// Side events between them.
    pub(crate) side_events: Vec<SideEvent>,
    /// Where phases end.
    pub(crate) marks: Vec<Mark>,
    /// Steps that request the same as the last simulated one.
    pub(crate) repeat: Option<Repeat>,
    /// Consecutive micro-batches that request the same.
    pub(crate) micro_batch_runs: Vec<MicroBatchRun>,
    /// Bytes of optimizer states in managed memory, which the allocator does not see.
    pub managed: u64,
    /// Operators without a rule, with the steps of a pass that call them.
    pub missing: Missing,
    /// Workspaces that were estimated from similar recordings, with how often.
    pub guessed: Guessed,
    /// Whether how many different rows a sparse gradient has was assumed.
    pub has_assumed_rows: bool,
    /// Where the workspaces of cuDNN came from.
    pub cudnn_sources: CudnnSources,
    /// The libraries that the process has loaded in the end.
    pub libraries: Libraries,
    /// The workspaces of cuDNN's plans.
    pub(crate) plans: PlanTable,
    /// Which sizes from `plans` the workspaces have; `None` takes those of the requests.
    pub(crate) assumption: Option<Assumption>,
    /// How many steps after the last it is followed by at most.
    pub(crate) later_steps: u32,
    /// The same with more steps, where those after the last would request something else.
    pub(crate) continued: Option<Arc<Program>>,
    /// Whether repeated steps and micro-batches in a steady state need no answers of their own.
    pub(crate) answers_steady_state: bool,
}

/// The end of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub phase: Phase,
    pub step: Option<u32>,
    pub micro: Option<u32>,
    /// How many requests came before it.
    pub end: usize,
}

/// Steps that request the same as the last simulated one.
#[derive(Clone, Debug)]
pub(crate) struct Repeat {
    /// How many.
    pub count: u32,
    /// How many steps would request the same if the run went on, those of `count` included.
    pub possible: u32,
    /// Where the repeated step begins; it is the last simulated one.
    pub start: Position,
    /// The id of the first allocation after it.
    pub next_id: u32,
    /// The allocations that were live before that step.
    pub before: Vec<u32>,
    /// Those that have taken their roles after it, in the same order.
    pub after: Vec<u32>,
}

/// Consecutive micro-batches of a step that request the same.
#[derive(Clone, Debug)]
pub(crate) struct MicroBatchRun {
    /// The index of the mark that ends the first phase of the first micro-batch.
    pub mark: usize,
    /// How many phases each has.
    pub phases: usize,
    /// How many requests each has.
    pub entries: usize,
    /// The live allocations before the first, between them and after the last, by role: each list has the same order.
    pub live: Vec<Vec<u32>>,
}

impl MicroBatchRun {
    /// How many micro-batches there are.
    pub fn count(&self) -> usize {
        self.live.len() - 1
    }

    /// The number of the micro-batch whose first phase ends with this mark.
    pub fn begins(&self, mark: usize) -> Option<usize> {
        let number = mark.checked_sub(self.mark)? / self.phases;
        (number < self.count() && self.mark + number * self.phases == mark).then_some(number)
    }

    /// The allocations that each micro-batch replaces, as they are before the one of this number.
    pub fn fresh(&self, number: usize) -> impl Iterator<Item = u32> {
        // What stays has the same id before and after each.
        let all = self.live[number].iter().zip(&self.live[0]).zip(&self.live[1]);
        all.filter(|((_, first), second)| first != second).map(|((now, _), _)| *now)
    }
}

/// A position in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub entry: usize,
    pub side_event: usize,
    pub mark: usize,
    /// The id of the next allocation.
    pub id: u32,
}

impl Program {
    /// Whether both have the same simulated requests.
    pub(crate) fn has_requests_of(&self, other: &Program) -> bool {
        self.entries == other.entries
    }

    /// The same program with other sizes of uncertain workspaces. What the rules of operators assume stays the same.
    pub(crate) fn assuming(&self, assumption: Assumption) -> Program {
        let continued = self.continued.as_ref().map(|longer| Arc::new(longer.assuming(assumption)));
        Program { assumption: Some(assumption), continued, ..self.clone() }
    }

    /// All requests in order, repeated steps included.
    pub fn journal(&self) -> Vec<Entry> {
        let mut journal = self.entries.to_vec();
        self.each_repeat(self.repeated_steps(), |_, entries, _, renumber| {
            journal.extend(entries.iter().map(|entry| renumber.entry(*entry)));
            true
        });
        journal
    }

    /// Lower bound of what any allocator needs: the peak of live bytes, rounded to blocks of 512 bytes, without the cuDNN
    /// workspaces that the program can do without.
    pub fn least_bytes(&self) -> u64 {
        let plain = Settings::default();
        let mut held: Vec<u64> = Vec::new();
        let (mut now, mut peak) = (0, 0);
        // A repeated step holds as much as the step that it repeats.
        for entry in self.entries.iter() {
            match *entry {
                Entry::Allocate { id, bytes, plan, .. } => {
                    let needed = if plan.is_none() { block_size(bytes, &plain) } else { 0 };
                    let id = id as usize;
                    if held.len() <= id {
                        held.resize(id + 1, 0);
                    }
                    held[id] = needed;
                    now += needed;
                    peak = peak.max(now);
                }
                Entry::Free { id } => now -= held[id as usize],
            }
        }
        peak
    }

    /// How many steps are repeated instead of simulated.
    pub fn repeated_steps(&self) -> u32 {
        self.repeat.as_ref().map_or(0, |repeat| repeat.count)
    }

    /// How many micro-batches of the simulated steps are copies.
    pub fn copied_micro_batches(&self) -> usize {
        self.micro_batch_runs.iter().map(|run| run.count() - 1).sum()
    }

    /// How many allocations there are, repeated steps included.
    pub fn allocation_count(&self) -> usize {
        let repeated = self.repeat.as_ref().map_or(0, |repeat| repeat.count * (repeat.next_id - repeat.start.id));
        (self.next_id + repeated) as usize
    }

    /// How many steps the run can be continued by without simulating more of it.
    pub(crate) fn possible_later_steps(&self) -> u32 {
        self.repeat.as_ref().map_or(0, |repeat| repeat.possible - repeat.count)
    }

    /// Calls `visit` for each of `count` repeated steps with its number, from 1, the requests and side events of the step
    /// that it repeats, and how ids change; until `visit` returns false.
    pub(crate) fn each_repeat(
        &self,
        count: u32,
        mut visit: impl FnMut(u32, &[Entry], &[SideEvent], &Renumber) -> bool,
    ) {
        let Some(repeat) = &self.repeat else { return };
        let (entries, side_events) =
            (&self.entries[repeat.start.entry..], &self.side_events[repeat.start.side_event..]);
        let allocations = repeat.next_id - repeat.start.id;
        let mut renumber = Renumber::new(repeat.start.id);
        let mut live = repeat.after.clone();
        for number in 1..=count {
            renumber.offset = allocations * number;
            renumber.carry(&repeat.before, &live);
            if !visit(number, entries, side_events, &renumber) {
                return;
            }
            live = repeat.after.iter().map(|&id| renumber.renumber(id)).collect();
        }
    }
}

/// The ids of allocations where requests are repeated.
pub(crate) struct Renumber {
    /// The first id that the repeated requests allocate.
    first: u32,
    /// What is added to the ids that they allocate.
    pub offset: u32,
    /// By original id, the present id of what was allocated before them.
    carried: Vec<u32>,
}

impl Renumber {
    /// For requests that allocate the ids from `first` on.
    pub fn new(first: u32) -> Renumber {
        Renumber { first, offset: 0, carried: Vec::new() }
    }

    /// The allocations that were live `before` the requests were simulated are now those in `live`, in the same order.
    pub fn carry(&mut self, before: &[u32], live: &[u32]) {
        self.carried.clear();
        self.carried.resize(self.first as usize, u32::MAX);
        for (&old, &new) in before.iter().zip(live) {
            self.carried[old as usize] = new;
        }
    }

    /// The present id of the allocation that had this id when the requests were simulated.
    #[inline]
    pub fn renumber(&self, id: u32) -> u32 {
        if id >= self.first { id + self.offset } else { self.carried[id as usize] }
    }

    /// A request with its present id.
    #[inline]
    pub fn entry(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Allocate { id, bytes, origin, category, stream, plan } => {
                Entry::Allocate { id: self.renumber(id), bytes, origin, category, stream, plan }
            }
            Entry::Free { id } => Entry::Free { id: self.renumber(id) },
        }
    }
}
