//! What a run asks of the allocator, in order: made once, answered under any settings.

use std::sync::Arc;

use vramfit_allocator::Settings;
use vramfit_allocator::size::block_size;

use super::report::Phase;
use crate::forward::{Guess, Missing};
use crate::memory::{Aside, Entry};
use crate::ops::{Guessed, Libraries, PlanTable};

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
    /// Operators without a rule, with the steps that call them in one pass.
    pub missing: Missing,
    /// What was guessed from similar recordings, with how often.
    pub guessed: Guessed,
    /// What the process has loaded in the end.
    pub libraries: Libraries,
    /// The workspaces of cuDNN's plans.
    pub(super) plans: PlanTable,
    /// Which of `plans` the workspaces are, where they are not those that the requests say.
    pub(super) assumption: Option<Guess>,
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
    pub(crate) fn assuming(&self, guess: Guess) -> Program {
        Program { assumption: Some(guess), ..self.clone() }
    }

    /// All requests in order, repeated steps included.
    pub fn journal(&self) -> Vec<Entry> {
        let mut journal = self.entries.to_vec();
        self.each_repeat(|_, entries, _, renumber| {
            journal.extend(entries.iter().map(|entry| match *entry {
                Entry::Allocate { id, bytes, place, category, plan } => {
                    Entry::Allocate { id: renumber.renumber(id), bytes, place, category, plan }
                }
                Entry::Free { id } => Entry::Free { id: renumber.renumber(id) },
            }));
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
        let mut renumber = Renumber { first: repeat.start.id, offset: 0, carried: Vec::new() };
        let mut lying = repeat.after.clone();
        for number in 1..=repeat.count {
            renumber.offset = made * number;
            renumber.carried.clear();
            renumber.carried.resize(repeat.start.id as usize, u32::MAX);
            for (&old, &new) in repeat.before.iter().zip(&lying) {
                renumber.carried[old as usize] = new;
            }
            if !look(number, entries, asides, &renumber) {
                return;
            }
            lying = repeat.after.iter().map(|&id| renumber.renumber(id)).collect();
        }
    }
}

/// The numbers that memory has in a repeated step.
pub(super) struct Renumber {
    first: u32,
    offset: u32,
    carried: Vec<u32>,
}

impl Renumber {
    /// The number of the memory that stands where `id` stood in the step that is repeated.
    #[inline]
    pub fn renumber(&self, id: u32) -> u32 {
        if id >= self.first { id + self.offset } else { self.carried[id as usize] }
    }
}
