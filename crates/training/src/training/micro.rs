//! The micro-batches of a step: those that would do again what the last simulated one did are copies of it.

use super::program::{Mark, Position, Renumber, Round};
use super::state::State;
use super::steps::Script;
use vramfit_eager::memory::{Aside, Happening};

/// The micro-batches of a step on their way.
pub(super) struct Series {
    /// How many are simulated; fewer once the others are known to be alike.
    count: u32,
    next: u32,
    can_copy: bool,
    start: Position,
    /// What the last one left behind.
    left: Option<State>,
}

impl Series {
    pub(super) fn new(count: u32, can_copy: bool) -> Series {
        Series { count, next: 0, can_copy: can_copy && count > 2, start: Position::default(), left: None }
    }

    /// The number of the next one to simulate.
    pub(super) fn next(&mut self) -> Option<u32> {
        let next = self.next;
        self.next += 1;
        (next < self.count).then_some(next)
    }

    /// A micro-batch begins.
    pub(super) fn begin(&mut self, script: &Script<'_>) {
        self.start = script.position();
    }

    /// It has ended. Where it has left behind what the one before it did, those that follow do the same.
    pub(super) fn end(&mut self, script: &mut Script<'_>) {
        let following = self.count.saturating_sub(self.next);
        if !self.can_copy || following == 0 {
            return;
        }
        let left = State::of(script);
        if let (Some(before), Some(after)) = (&self.left, &left)
            && before.is_like(after)
        {
            add_copies(script, self.start, (before, after), following);
            self.count = self.next;
        }
        self.left = left;
    }
}

/// Adds so many copies of the micro-batch that began at `start`. They come before it: what the script holds is what the last one has
/// left.
fn add_copies(script: &mut Script<'_>, start: Position, (before, after): (&State, &State), count: u32) {
    let made = script.position().id - start.id;
    let marks = script.marks.split_off(start.mark);
    let mut memory = script.context.memory().borrow_mut();
    let (entries, asides) = memory.split_off(start.entry, start.aside);
    memory.reserve(entries.len() * (count as usize + 1));
    let mut renumber = Renumber::new(start.id);
    let mut lying = vec![before.ids().to_vec()];
    for number in 1..=count + 1 {
        let is_last = number > count;
        renumber.offset = if is_last { 0 } else { made * number };
        renumber.carry(before.ids(), &lying[number as usize - 1]);
        let shift = entries.len() * (number as usize - 1);
        memory.write_all(entries.iter().map(|entry| renumber.entry(*entry)));
        memory.tell_all(asides.iter().map(|Aside { at, what }| {
            let what = match *what {
                Happening::Recount { id, category } => Happening::Recount { id: renumber.renumber(id), category },
                other => other,
            };
            Aside { at: at + shift, what }
        }));
        script.marks.extend(marks.iter().map(|mark| {
            let micro = mark.micro.map(|micro| micro + number - 1);
            Mark { micro, end: mark.end + shift, ..*mark }
        }));
        lying.push(after.ids().iter().map(|&id| renumber.renumber(id)).collect());
    }
    memory.count_on_from(start.id + made * (count + 1));
    let round = Round { mark: start.mark, phases: marks.len(), entries: entries.len(), lying };
    drop(memory);
    script.rounds.push(round);
}
