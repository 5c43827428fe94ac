//! The micro-batches of a step: those that would request the same as the last simulated one are copies of it.

use vramfit_eager::memory::{SideEvent, SideEventKind};

use super::state::State;
use crate::process::Process;
use crate::program::{Mark, MicroBatchRun, Position, Renumber};
use crate::script::Action;

/// Runs the actions of a step, or of its part before the update. Where `can_copy` allows it, micro-batches are copied as
/// soon as one has left the process as the one before it did.
pub(super) fn run_step(process: &mut Process<'_>, actions: &[Action], can_copy: bool) {
    let mut before: Option<State> = None;
    let mut left = actions;
    while let Some(&action) = left.first() {
        if !can_copy || action != Action::BeginMicroBatch {
            process.run(action);
            left = &left[1..];
            continue;
        }
        let (micro_batch, rest) = left.split_at(length_of_micro_batch(left));
        let start = process.position();
        process.run_all(micro_batch);
        left = rest;
        let following = following_micro_batches(rest);
        // A copy takes two simulated micro-batches that are alike and one that follows.
        if following.is_empty() || (before.is_none() && following.len() == 1) {
            continue;
        }
        let after = State::of(process);
        if let (Some(before), Some(after)) = (&before, &after)
            && before.is_like(after)
            && following.iter().all(|other| *other == micro_batch)
        {
            add_copies(process, start, (before, after), following.len() as u32);
            left = &rest[following.len() * micro_batch.len()..];
        }
        before = after;
    }
}

/// The actions of each micro-batch with which `actions` begin.
fn following_micro_batches(actions: &[Action]) -> Vec<&[Action]> {
    let mut found = Vec::new();
    let mut left = actions;
    while left.first() == Some(&Action::BeginMicroBatch) {
        let (micro_batch, rest) = left.split_at(length_of_micro_batch(left));
        found.push(micro_batch);
        left = rest;
    }
    found
}

/// The number of actions of the micro-batch with which `actions` begin.
fn length_of_micro_batch(actions: &[Action]) -> usize {
    actions.iter().position(|action| *action == Action::EndMicroBatch).map_or(actions.len(), |end| end + 1)
}

/// Adds `count` copies of the micro-batch that began at `start`. They are written before it: what the process holds is
/// what the last micro-batch has left.
fn add_copies(process: &mut Process<'_>, start: Position, (before, after): (&State, &State), count: u32) {
    let allocations = process.position().id - start.id;
    let marks = process.marks.split_off(start.mark);
    let mut memory = process.context.memory().borrow_mut();
    let (entries, side_events) = memory.split_off(start.entry, start.side_event);
    memory.reserve(entries.len() * (count as usize + 1));
    let mut renumber = Renumber::new(start.id);
    let mut live = vec![before.ids().to_vec()];
    for number in 1..=count + 1 {
        let is_last = number > count;
        renumber.offset = if is_last { 0 } else { allocations * number };
        renumber.carry(before.ids(), &live[number as usize - 1]);
        let shift = entries.len() * (number as usize - 1);
        memory.write_all(entries.iter().map(|entry| renumber.entry(*entry)));
        memory.add_side_events(side_events.iter().map(|SideEvent { at, kind }| {
            let kind = match *kind {
                SideEventKind::CategoryChanged { id, category } => {
                    SideEventKind::CategoryChanged { id: renumber.renumber(id), category }
                }
                other => other,
            };
            SideEvent { at: at + shift, kind }
        }));
        process.marks.extend(marks.iter().map(|mark| {
            let micro = mark.micro.map(|micro| micro + number - 1);
            Mark { micro, end: mark.end + shift, ..*mark }
        }));
        live.push(after.ids().iter().map(|&id| renumber.renumber(id)).collect());
    }
    memory.set_next_id(start.id + allocations * (count + 1));
    drop(memory);
    process.micro_batch_runs.push(MicroBatchRun {
        mark: start.mark,
        phases: marks.len(),
        entries: entries.len(),
        live,
    });
}
