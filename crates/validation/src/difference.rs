//! Compares a simulated step with its recording, event by event.

use std::collections::HashMap;
use std::fmt::Write;

use vramfit_eager::memory::Entry;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_training::Run;

use crate::measured::RecordedTrace;

/// An allocation or a free, with allocations numbered in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An allocation of this many bytes.
    Allocate(u64),
    /// The free of the allocation with this number.
    Free(u32),
}

/// The recorded events, each with its index in the trace.
pub fn recorded_events(trace: &RecordedTrace) -> Vec<(Event, usize)> {
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut events = Vec::new();
    let mut next = 0;
    for (index, action) in trace.actions.chars().enumerate() {
        let address = trace.addresses[index];
        match action {
            'a' => {
                numbers.insert(address, next);
                next += 1;
                events.push((Event::Allocate(trace.sizes[index]), index));
            }
            'f' | 'r' => {
                if let Some(number) = numbers.remove(&address) {
                    events.push((Event::Free(number), index));
                }
            }
            _ => {}
        }
    }
    sort_cleared_casts(trace, &mut events);
    events
}

/// Autocast keeps the casts of weights in a hash table keyed by address, so it frees them in a random order, which makes no
/// difference to the allocator. They are sorted by the order of their allocation.
fn sort_cleared_casts(trace: &RecordedTrace, events: &mut [(Event, usize)]) {
    let is_cleared = |&(event, index): &(Event, usize)| {
        let frame = trace.stack_table[trace.stacks[index]].first().map_or("", |&frame| trace.frames[frame].as_str());
        matches!(event, Event::Free(_)) && frame.contains("autocast_mode.py") && frame.ends_with("__exit__")
    };
    for run in events.chunk_by_mut(|one, other| is_cleared(one) && is_cleared(other)) {
        if run.len() > 1 {
            run.sort_by_key(|&(event, _)| if let Event::Free(number) = event { number } else { 0 });
        }
    }
}

/// The simulated events, each with the index of its step.
pub fn simulated_events(journal: &[Entry]) -> Vec<(Event, u32)> {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut events = Vec::new();
    let mut step = 0;
    for entry in journal {
        match *entry {
            Entry::Allocate { bytes: 0, .. } => {}
            Entry::Allocate { id, bytes, origin, .. } => {
                let next = numbers.len() as u32;
                numbers.insert(id, next);
                step = origin;
                events.push((Event::Allocate(bytes), step));
            }
            Entry::Free { id } => events.extend(numbers.get(&id).map(|&number| (Event::Free(number), step))),
        }
    }
    events
}

/// The index of the first event that differs.
pub fn first_difference(recorded: &[(Event, usize)], simulated: &[(Event, u32)]) -> Option<usize> {
    let same = recorded.iter().zip(simulated).take_while(|((one, _), (other, _))| one == other).count();
    (same < recorded.len() || same < simulated.len()).then_some(same)
}

/// Both sides around event `at`, with stack and operator.
pub fn show(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run, at: usize) -> String {
    let (recorded, simulated) = sides(trace, run);
    let mut text = String::new();
    let sizes = |events: &mut dyn Iterator<Item = Event>| -> Vec<u64> {
        events.filter_map(|event| if let Event::Allocate(bytes) = event { Some(bytes) } else { None }).collect()
    };
    let recorded_sizes = sizes(&mut recorded.iter().map(|&(event, _)| event));
    let simulated_sizes = sizes(&mut simulated.iter().map(|&(event, _)| event));
    let name = |event: Option<Event>, sizes: &[u64]| match event {
        None => "(end)".to_owned(),
        Some(Event::Allocate(bytes)) => format!("+{bytes}"),
        Some(Event::Free(number)) => format!("-#{number} ({})", sizes.get(number as usize).copied().unwrap_or(0)),
    };
    for index in at.saturating_sub(8)..(at + 12).min(recorded.len().max(simulated.len())) {
        let one = recorded.get(index);
        let other = simulated.get(index);
        let mark = if index == at {
            ">"
        } else if one.map(|x| x.0) == other.map(|x| x.0) {
            " "
        } else {
            "!"
        };
        let _ = writeln!(
            text,
            "{mark}{index:6} {:24} {:24} {} | {}",
            name(one.map(|x| x.0), &recorded_sizes),
            name(other.map(|x| x.0), &simulated_sizes),
            other.map_or_else(String::new, |&(_, step)| operator_of(bound, step)),
            one.map_or_else(String::new, |&(_, event)| stack(trace, event)),
        );
    }
    text
}

fn stack(trace: &RecordedTrace, event: usize) -> String {
    let phase = trace.marks.iter().find(|(_, end)| event < *end).map_or("", |(name, _)| name.as_str());
    let frames = &trace.stack_table[trace.stacks[event]];
    let first = frames.first().map_or("", |&frame| trace.frames[frame].as_str());
    format!("{phase} {first}")
}

/// The operator that a step calls; empty for other steps.
pub fn operator_of(bound: &Bound<'_>, step: u32) -> String {
    match bound.steps.get(step as usize) {
        Some(BoundStep::Call(call)) => bound.operator_name(call).to_owned(),
        _ => String::new(),
    }
}

/// How many events agree before the first difference, and how many there are.
pub fn agreement(trace: &RecordedTrace, run: &Run) -> (usize, usize) {
    let (recorded, simulated) = sides(trace, run);
    let same = first_difference(&recorded, &simulated).unwrap_or(recorded.len());
    (same, recorded.len().max(simulated.len()))
}

/// The events of one side, each with where it comes from.
type Side<Origin> = Vec<(Event, Origin)>;

/// Both sides. Where they differ, frees between two allocations are sorted by the order of allocation: sets and hash tables
/// free tensors in a random order, which makes no difference to the allocator.
fn sides(trace: &RecordedTrace, run: &Run) -> (Side<usize>, Side<u32>) {
    let mut recorded = recorded_events(trace);
    let mut simulated = simulated_events(&run.journal);
    if first_difference(&recorded, &simulated).is_some() {
        sort_frees(&mut recorded);
        sort_frees(&mut simulated);
    }
    (recorded, simulated)
}

fn sort_frees<T>(events: &mut [(Event, T)]) {
    for run in events.chunk_by_mut(|one, other| matches!((one.0, other.0), (Event::Free(_), Event::Free(_)))) {
        run.sort_by_key(|&(event, _)| if let Event::Free(number) = event { number } else { 0 });
    }
}

/// The events without workspaces, which are freed right after they were allocated. The rest is renumbered.
pub fn without_workspaces(events: &[Event]) -> Vec<Event> {
    let mut kept = Vec::with_capacity(events.len());
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut allocated = 0;
    let mut rest = events.iter().peekable();
    while let Some(&event) = rest.next() {
        match event {
            Event::Allocate(bytes) => {
                if rest.next_if(|next| **next == Event::Free(allocated)).is_none() {
                    numbers.insert(allocated, numbers.len() as u32);
                    kept.push(Event::Allocate(bytes));
                }
                allocated += 1;
            }
            Event::Free(number) => kept.extend(numbers.get(&number).map(|&number| Event::Free(number))),
        }
    }
    // The order of several frees in a row makes no difference to the allocator.
    for run in kept.chunk_by_mut(|one, other| matches!((one, other), (Event::Free(_), Event::Free(_)))) {
        run.sort_by_key(|event| if let Event::Free(number) = event { *number } else { 0 });
    }
    kept
}

/// How many events agree before the first difference, without workspaces, and how many there are.
pub fn agreement_up_to_workspaces(trace: &RecordedTrace, run: &Run) -> (usize, usize) {
    let recorded: Vec<Event> = recorded_events(trace).into_iter().map(|(event, _)| event).collect();
    let simulated: Vec<Event> = simulated_events(&run.journal).into_iter().map(|(event, _)| event).collect();
    let (recorded, simulated) = (without_workspaces(&recorded), without_workspaces(&simulated));
    let same = recorded.iter().zip(&simulated).take_while(|(one, other)| one == other).count();
    (same, recorded.len().max(simulated.len()))
}

/// The workspaces, keyed by the number of other events before them and a count, with the index of the event.
fn workspaces(events: &[Event]) -> HashMap<(usize, usize), (u64, usize)> {
    let mut found = HashMap::new();
    let (mut allocated, mut others, mut nth) = (0, 0, 0);
    for (index, event) in events.iter().enumerate() {
        let Event::Allocate(bytes) = event else {
            others += 1;
            nth = 0;
            continue;
        };
        if events.get(index + 1) == Some(&Event::Free(allocated)) {
            // Its own free, which comes next, does not count.
            others -= 1;
            found.insert((others, nth), (*bytes, index));
            nth += 1;
        } else {
            others += 1;
            nth = 0;
        }
        allocated += 1;
    }
    found
}

/// The workspaces that differ most.
pub fn show_workspaces(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run) -> String {
    let simulated_steps = simulated_events(&run.journal);
    let recorded: Vec<Event> = recorded_events(trace).into_iter().map(|(event, _)| event).collect();
    let simulated: Vec<Event> = simulated_steps.iter().map(|(event, _)| *event).collect();
    let (recorded, simulated) = (workspaces(&recorded), workspaces(&simulated));
    let mut rows: Vec<(u64, u64, String)> = Vec::new();
    for (key, &(bytes, index)) in &simulated {
        let other = recorded.get(key).map_or(0, |(bytes, _)| *bytes);
        let (_, step) = simulated_steps[index];
        rows.push((other, bytes, operator_of(bound, step)));
    }
    for (key, &(bytes, _)) in recorded.iter().filter(|(key, _)| !simulated.contains_key(key)) {
        rows.push((bytes, 0, format!("at {key:?}")));
    }
    rows.sort_by_key(|(one, other, _)| std::cmp::Reverse(one.abs_diff(*other)));
    let right = rows.iter().filter(|(one, other, _)| one == other).count();
    let mut text = format!("{right} of {} workspaces agree; recorded, simulated:\n", rows.len());
    for (one, other, operator) in rows.iter().take(12) {
        let _ = writeln!(text, "  {one:12} {other:12} {operator}");
    }
    text
}

/// Both sides around the first difference, without workspaces.
pub fn show_core(trace: &RecordedTrace, run: &Run) -> String {
    let recorded: Vec<Event> = recorded_events(trace).into_iter().map(|(event, _)| event).collect();
    let simulated: Vec<Event> = simulated_events(&run.journal).into_iter().map(|(event, _)| event).collect();
    let (recorded, simulated) = (without_workspaces(&recorded), without_workspaces(&simulated));
    let same = recorded.iter().zip(&simulated).take_while(|(one, other)| one == other).count();
    let mut text = String::new();
    for index in same.saturating_sub(12)..(same + 16).min(recorded.len().max(simulated.len())) {
        let mark = if recorded.get(index) == simulated.get(index) { ' ' } else { '!' };
        let _ = writeln!(text, "{mark}{index:6} {:?} {:?}", recorded.get(index), simulated.get(index));
    }
    text
}
