//! What a run asks of the allocator, in order: made once, answered under any settings.

use std::sync::Arc;

use vramfit_allocator::size::block_size;
use vramfit_allocator::{Settings, SimulatedDriver};

use super::addresses::address_orders;
use super::report::Phase;
use vramfit_cudnn::convolution::{Assumption, PlanTable};
use vramfit_eager::autograd::{Guessed, Libraries};
use vramfit_eager::forward::Missing;
use vramfit_eager::memory::{Aside, Entry};

/// The requests of a run. They do not depend on the allocator's settings or on how much memory there is, so one program
/// answers for every cap.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The requests that were simulated.
    pub(super) entries: Arc<Vec<Entry>>,
    /// The number that memory after them would get.
    pub(super) next_id: u32,
    /// What happened between them.
    pub(super) asides: Vec<Aside>,
    /// Where phases end.
    pub(super) marks: Vec<Mark>,
    /// Steps that do again what the last simulated one did.
    pub(super) repeat: Option<Repeat>,
    /// Micro-batches that do again what the one before did.
    pub(super) rounds: Vec<Round>,
    /// Operators without a rule, with the steps that call them in one pass.
    pub missing: Missing,
    /// What was guessed from similar recordings, with how often.
    pub guessed: Guessed,
    /// What the process has loaded in the end.
    pub libraries: Libraries,
    /// The workspaces of cuDNN's plans.
    pub(super) plans: PlanTable,
    /// Which of `plans` the workspaces are, where they are not those that the requests say.
    pub(super) assumption: Option<Assumption>,
}

/// The end of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub phase: Phase,
    pub step: Option<u32>,
    pub micro: Option<u32>,
    /// How many requests came before it.
    pub end: usize,
}

/// Steps that do again what the last simulated one did.
#[derive(Clone, Debug)]
pub(super) struct Repeat {
    /// How many.
    pub count: u32,
    /// Where the step that is repeated begins; it is the last simulated one.
    pub start: Position,
    /// The number the next memory after it gets.
    pub next_id: u32,
    /// The memory that lay there before that step, and what lies in its place after it, each in the same order.
    pub before: Vec<u32>,
    pub after: Vec<u32>,
}

/// Micro-batches of a step that do the same one after the other.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The place among the marks of the first one's first phase.
    pub mark: usize,
    /// How many phases each has.
    pub phases: usize,
    /// How many requests each has.
    pub entries: usize,
    /// The memory that lies there before the first, between them and after the last, each time in the same order.
    pub lying: Vec<Vec<u32>>,
}

impl Round {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.lying.len() - 1
    }

    /// The number of the one that begins where the phase with this mark does.
    pub fn begins(&self, mark: usize) -> Option<usize> {
        let number = mark.checked_sub(self.mark)? / self.phases;
        (number < self.count() && self.mark + number * self.phases == mark).then_some(number)
    }

    /// What comes anew in each and lies there before the one of this number.
    pub fn fresh(&self, number: usize) -> impl Iterator<Item = u32> {
        // What stays has one number all along.
        let all = self.lying[number].iter().zip(&self.lying[0]).zip(&self.lying[1]);
        all.filter(|((_, first), second)| first != second).map(|((now, _), _)| *now)
    }
}

/// A place in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub entry: usize,
    pub aside: usize,
    pub mark: usize,
    /// The number the next memory gets.
    pub id: u32,
}

impl Program {
    /// Whether another asks for the same, request by request.
    pub(crate) fn asks_as(&self, other: &Program) -> bool {
        self.entries == other.entries
    }

    /// The same program with other workspaces where they are not certain. What the rules of operators assume stays as it is.
    pub(crate) fn assuming(&self, assumption: Assumption) -> Program {
        Program { assumption: Some(assumption), ..self.clone() }
    }

    /// The orders of addresses under which it is answered: of programs that are drawn by lot each takes its turn.
    pub(crate) fn orders(&self) -> Vec<SimulatedDriver> {
        let all = address_orders();
        match self.assumption {
            Some(Assumption::Sampled(seed)) => vec![all[seed as usize % all.len()].clone()],
            _ => all.into(),
        }
    }

    /// All requests in order, repeated steps included.
    pub fn journal(&self) -> Vec<Entry> {
        let mut journal = self.entries.to_vec();
        self.each_repeat(|_, entries, _, renumber| {
            journal.extend(entries.iter().map(|entry| renumber.entry(*entry)));
            true
        });
        journal
    }

    /// Bytes that no allocator can do without: the most that is held at once, in pieces of 512 bytes; workspaces, which
    /// the program can do without, are not counted.
    pub fn least_bytes(&self) -> u64 {
        let plain = Settings::default();
        let mut held: Vec<u64> = Vec::new();
        let (mut now, mut most) = (0, 0);
        // A repeated step holds what the step that it repeats held.
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
                    most = most.max(now);
                }
                Entry::Free { id } => now -= held[id as usize],
            }
        }
        most
    }

    /// How many steps do again what the last simulated one did.
    pub fn repeated_steps(&self) -> u32 {
        self.repeat.as_ref().map_or(0, |repeat| repeat.count)
    }

    /// How many of its micro-batches are copies of another.
    pub fn copied_micro_batches(&self) -> usize {
        self.rounds.iter().map(|round| round.count() - 1).sum()
    }

    /// How many pieces of memory are asked for.
    pub fn allocation_count(&self) -> usize {
        let repeated = self.repeat.as_ref().map_or(0, |repeat| repeat.count * (repeat.next_id - repeat.start.id));
        (self.next_id + repeated) as usize
    }

    /// Calls `look` for each repeated step, with its number, requests and asides, and the numbers that memory has in
    /// it; until that says stop.
    pub(super) fn each_repeat(&self, mut look: impl FnMut(u32, &[Entry], &[Aside], &Renumber) -> bool) {
        let Some(repeat) = &self.repeat else { return };
        let (entries, asides) = (&self.entries[repeat.start.entry..], &self.asides[repeat.start.aside..]);
        let made = repeat.next_id - repeat.start.id;
        let mut renumber = Renumber::new(repeat.start.id);
        let mut lying = repeat.after.clone();
        for number in 1..=repeat.count {
            renumber.offset = made * number;
            renumber.carry(&repeat.before, &lying);
            if !look(number, entries, asides, &renumber) {
                return;
            }
            lying = repeat.after.iter().map(|&id| renumber.renumber(id)).collect();
        }
    }
}

/// The numbers that memory has where requests are repeated.
pub(super) struct Renumber {
    /// The first number of what the requests themselves ask for.
    first: u32,
    /// How much higher the numbers are of what they ask for now.
    pub offset: u32,
    /// The numbers of what was there before, by those that it had at first.
    carried: Vec<u32>,
}

impl Renumber {
    /// For requests before which `first` pieces of memory were asked for.
    pub fn new(first: u32) -> Renumber {
        Renumber { first, offset: 0, carried: Vec::new() }
    }

    /// What was `before` when the requests were simulated is now what is `lying` there, each in the same order.
    pub fn carry(&mut self, before: &[u32], lying: &[u32]) {
        self.carried.clear();
        self.carried.resize(self.first as usize, u32::MAX);
        for (&old, &new) in before.iter().zip(lying) {
            self.carried[old as usize] = new;
        }
    }

    /// The number of the memory that stands where `id` stood in what is repeated.
    #[inline]
    pub fn renumber(&self, id: u32) -> u32 {
        if id >= self.first { id + self.offset } else { self.carried[id as usize] }
    }

    /// A request with the numbers of now.
    #[inline]
    pub fn entry(&self, entry: Entry) -> Entry {
        match entry {
            Entry::Allocate { id, bytes, place, category, plan } => {
                Entry::Allocate { id: self.renumber(id), bytes, place, category, plan }
            }
            Entry::Free { id } => Entry::Free { id: self.renumber(id) },
        }
    }
}
