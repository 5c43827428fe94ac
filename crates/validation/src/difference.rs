//! The event diff: a simulated step beside its recording, up to the first difference.

use std::collections::HashMap;
use std::fmt::Write;

use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_step::memory::Entry;
use vramfit_step::training::Run;

use crate::measured::RecordedTrace;

/// An allocation or a free, with allocations numbered in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many bytes.
    Allocate(u64),
    /// Of the allocation with this number.
    Free(u32),
}

/// The recorded events, each with its place in the trace.
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
    events
}

/// The simulated events, each with what the program was doing.
pub fn simulated_events(journal: &[Entry]) -> Vec<(Event, u32)> {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut events = Vec::new();
    let mut place = 0;
    for entry in journal {
        match *entry {
            Entry::Allocate { id, bytes, place: at } => {
                let next = numbers.len() as u32;
                numbers.insert(id, next);
                place = at;
                events.push((Event::Allocate(bytes), place));
            }
            Entry::Free { id } => events.push((Event::Free(numbers[&id]), place)),
        }
    }
    events
}

/// The first place where the two differ.
pub fn first_difference(recorded: &[(Event, usize)], simulated: &[(Event, u32)]) -> Option<usize> {
    let same = recorded.iter().zip(simulated).take_while(|((one, _), (other, _))| one == other).count();
    (same < recorded.len() || same < simulated.len()).then_some(same)
}

/// The two side by side around `at`, with stack and operator.
pub fn show(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run, at: usize) -> String {
    let mut recorded = recorded_events(trace);
    let mut simulated = simulated_events(&run.journal);
    sort_frees(&mut recorded);
    sort_frees(&mut simulated);
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
            other.map_or_else(String::new, |&(_, place)| place_name(bound, place)),
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

/// What the program was doing, in words.
pub fn place_name(bound: &Bound<'_>, place: u32) -> String {
    match bound.steps.get(place as usize) {
        Some(BoundStep::Call(call)) => bound.operator_name(call).to_owned(),
        _ => String::new(),
    }
}

/// How many events agree from the beginning, of how many.
pub fn agreement(trace: &RecordedTrace, run: &Run) -> (usize, usize) {
    let mut recorded = recorded_events(trace);
    let mut simulated = simulated_events(&run.journal);
    if first_difference(&recorded, &simulated).is_some() {
        sort_frees(&mut recorded);
        sort_frees(&mut simulated);
    }
    let same = first_difference(&recorded, &simulated).unwrap_or(recorded.len());
    (same, recorded.len().max(simulated.len()))
}

/// Frees with no allocation between them in the order of what they free. The end of autocast lets go of weights' casts in
/// the order of a hash table keyed by addresses, and the end of a checkpointed region of its arguments in that of Python's
/// cells: no allocator can see it.
fn sort_frees<Place>(events: &mut [(Event, Place)]) {
    let number = |event: &(Event, Place)| if let (Event::Free(number), _) = event { Some(*number) } else { None };
    for run in events.chunk_by_mut(|one, other| number(one).is_some() && number(other).is_some()) {
        run.sort_by_key(number);
    }
}
