//! The event diff: a simulated step beside its recording, up to the first difference.

use std::collections::HashMap;
use std::fmt::Write;

use vramfit_eager::memory::Entry;
use vramfit_graph::bind::{Bound, BoundStep};
use vramfit_training::Run;

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
    sort_cleared_casts(trace, &mut events);
    events
}

/// Autocast keeps weights' casts in a hash table by address: the order in which its end lets go of them is chance, and
/// means nothing to the allocator. Here they go in the order in which they were made.
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

/// The simulated events, each with what the program was doing.
pub fn simulated_events(journal: &[Entry]) -> Vec<(Event, u32)> {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut events = Vec::new();
    let mut place = 0;
    for entry in journal {
        match *entry {
            Entry::Allocate { bytes: 0, .. } => {}
            Entry::Allocate { id, bytes, origin: at, .. } => {
                let next = numbers.len() as u32;
                numbers.insert(id, next);
                place = at;
                events.push((Event::Allocate(bytes), place));
            }
            Entry::Free { id } => events.extend(numbers.get(&id).map(|&number| (Event::Free(number), place))),
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
    let (recorded, simulated) = sides(trace, run);
    let same = first_difference(&recorded, &simulated).unwrap_or(recorded.len());
    (same, recorded.len().max(simulated.len()))
}

/// The events of one side, each with its place.
type Side<Place> = Vec<(Event, Place)>;

/// Both sides as they were; where they differ, with the frees between two allocations in the order in which the memory
/// was allocated. Sets and hash tables let go of tensors in an order that is chance, and no allocator can see it.
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

/// The events without memory that is let go of as soon as it was asked for, as workspaces are: what is left, numbered
/// anew.
pub fn without_workspaces(events: &[Event]) -> Vec<Event> {
    let mut kept = Vec::with_capacity(events.len());
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut made = 0;
    let mut rest = events.iter().peekable();
    while let Some(&event) = rest.next() {
        match event {
            Event::Allocate(bytes) => {
                if rest.next_if(|next| **next == Event::Free(made)).is_none() {
                    numbers.insert(made, numbers.len() as u32);
                    kept.push(Event::Allocate(bytes));
                }
                made += 1;
            }
            Event::Free(number) => kept.extend(numbers.get(&number).map(|&number| Event::Free(number))),
        }
    }
    // In which order several are let go of at once means nothing to the allocator.
    for run in kept.chunk_by_mut(|one, other| matches!((one, other), (Event::Free(_), Event::Free(_)))) {
        run.sort_by_key(|event| if let Event::Free(number) = event { *number } else { 0 });
    }
    kept
}

/// How many events agree from the beginning once workspaces are left out, of how many.
pub fn agreement_up_to_workspaces(trace: &RecordedTrace, run: &Run) -> (usize, usize) {
    let recorded: Vec<Event> = recorded_events(trace).into_iter().map(|(event, _)| event).collect();
    let simulated: Vec<Event> = simulated_events(&run.journal).into_iter().map(|(event, _)| event).collect();
    let (recorded, simulated) = (without_workspaces(&recorded), without_workspaces(&simulated));
    let same = recorded.iter().zip(&simulated).take_while(|(one, other)| one == other).count();
    (same, recorded.len().max(simulated.len()))
}

/// The memory let go of at once, by how many other events were before it, with where it stands.
fn workspaces(events: &[Event]) -> HashMap<(usize, usize), (u64, usize)> {
    let mut found = HashMap::new();
    let (mut made, mut others, mut nth) = (0, 0, 0);
    for (index, event) in events.iter().enumerate() {
        let Event::Allocate(bytes) = event else {
            others += 1;
            nth = 0;
            continue;
        };
        if events.get(index + 1) == Some(&Event::Free(made)) {
            // Its own free is no other event.
            others -= 1;
            found.insert((others, nth), (*bytes, index));
            nth += 1;
        } else {
            others += 1;
            nth = 0;
        }
        made += 1;
    }
    found
}

/// The workspaces that differ most, where everything else agrees.
pub fn show_workspaces(trace: &RecordedTrace, bound: &Bound<'_>, run: &Run) -> String {
    let simulated_places = simulated_events(&run.journal);
    let recorded: Vec<Event> = recorded_events(trace).into_iter().map(|(event, _)| event).collect();
    let simulated: Vec<Event> = simulated_places.iter().map(|(event, _)| *event).collect();
    let (recorded, simulated) = (workspaces(&recorded), workspaces(&simulated));
    let mut rows: Vec<(u64, u64, String)> = Vec::new();
    for (key, &(bytes, index)) in &simulated {
        let other = recorded.get(key).map_or(0, |(bytes, _)| *bytes);
        let (_, place) = simulated_places[index];
        rows.push((other, bytes, place_name(bound, place)));
    }
    for (key, &(bytes, _)) in recorded.iter().filter(|(key, _)| !simulated.contains_key(key)) {
        rows.push((bytes, 0, format!("at {key:?}")));
    }
    rows.sort_by_key(|(one, other, _)| std::cmp::Reverse(one.abs_diff(*other)));
    let right = rows.iter().filter(|(one, other, _)| one == other).count();
    let mut text = format!("{right} of {} workspaces agree; recorded, simulated:\n", rows.len());
    for (one, other, place) in rows.iter().take(12) {
        let _ = writeln!(text, "  {one:12} {other:12} {place}");
    }
    text
}

/// The two side by side around the first difference once workspaces are left out.
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
