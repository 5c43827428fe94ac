//! A run that was traced under a cap (`validation/maxbatch/trace_capped.py`): what its convolutions asked for, with and without
//! success, beside what is simulated.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;
use vramfit_cudnn::Scenario;
use vramfit_eager::machine::H200;
use vramfit_eager::memory::Entry;
use vramfit_graph::bind::{Bound, BoundStep, Value};
use vramfit_training::{Loop, record};

use crate::difference::{Event, recorded_events};
use crate::estimate::with_bound;
use crate::measured::{RecordedTrace, measured, read_compressed};
use crate::recordings::Result;

#[derive(Deserialize)]
struct Traced {
    case: String,
    batch: i64,
    died: Option<String>,
    trace: RecordedTrace,
}

/// Memory that is let go of as soon as it was asked for, by how many other events came before it.
type Workspaces<T> = BTreeMap<usize, Vec<T>>;

/// What was asked for and let go of at once, requests that failed among it (as negative numbers).
fn recorded(trace: &RecordedTrace) -> (Workspaces<i64>, usize) {
    let events = recorded_events(trace);
    let mut failures =
        trace.actions.char_indices().filter(|(_, action)| *action == 'o').map(|(index, _)| index).peekable();
    let (mut found, mut others, mut made, mut place) = (Workspaces::new(), 0, 0, 0);
    while place < events.len() {
        let (event, index) = events[place];
        while let Some(failed) = failures.next_if(|failed| *failed < index) {
            found.entry(others).or_default().push(-trace.sizes[failed].cast_signed());
        }
        place += 1;
        let Event::Allocate(bytes) = event else {
            others += 1;
            continue;
        };
        if events.get(place).map(|next| next.0) == Some(Event::Free(made)) {
            found.entry(others).or_default().push(bytes.cast_signed());
            place += 1;
        } else {
            others += 1;
        }
        made += 1;
    }
    (found, others)
}

/// What is asked for and let go of at once, each with what the program was doing.
fn simulated(journal: &[Entry]) -> (Workspaces<(u64, u32)>, usize) {
    let (mut found, mut others, mut place) = (Workspaces::new(), 0, 0);
    while let Some(entry) = journal.get(place) {
        place += 1;
        match (entry, journal.get(place)) {
            (Entry::Allocate { id, bytes, origin: at, .. }, Some(Entry::Free { id: freed })) if id == freed => {
                if *bytes > 0 {
                    found.entry(others).or_default().push((*bytes, *at));
                }
                place += 1;
            }
            _ => others += 1,
        }
    }
    (found, others)
}

/// The convolution's tensors and geometry, in words.
fn described(bound: &Bound<'_>, place: u32) -> String {
    let Some(BoundStep::Call(call)) = bound.steps.get(place as usize) else { return String::new() };
    let mut text = bound.operator_name(call).to_owned();
    for argument in &call.arguments {
        let _ = match argument {
            Value::Tensor(id) => write!(text, " {:?}{:?}", bound.tensor(*id).dtype, &bound.tensor(*id).shape[..]),
            Value::List(numbers) => {
                let numbers: Vec<i64> = numbers
                    .iter()
                    .filter_map(|number| if let Value::Int(number) = number { Some(*number) } else { None })
                    .collect();
                write!(text, " {numbers:?}")
            }
            Value::Int(number) => write!(text, " {number}"),
            _ => Ok(()),
        };
    }
    text
}

/// Every convolution whose requests differ.
///
/// # Errors
/// The file cannot be read, or its case cannot be simulated.
pub fn difference_of(path: &Path) -> Result<String> {
    let traced: Traced = read_compressed(path)?;
    let mut case =
        measured()?.cases.remove(&traced.case).ok_or_else(|| format!("no case {} was measured", traced.case))?;
    case.settings.batch = traced.batch;
    let (recorded, core) = recorded(&traced.trace);
    with_bound(&case, |bound, options| {
        let asked = |scenario| {
            let program =
                record(bound, &Loop { scenario, ..options.clone() }, H200).map_err(|error| error.to_string())?;
            Ok::<_, String>(simulated(&program.journal()))
        };
        let ((usual, simulated_core), (least, _), (most, _)) =
            (asked(Scenario::Expected)?, asked(Scenario::Lower)?, asked(Scenario::Upper)?);
        let mut text = format!(
            "{} at {}{}: {core} events of other memory, {simulated_core} simulated; failed requests are negative\n",
            traced.case,
            traced.batch,
            traced.died.map_or_else(String::new, |died| format!(", which died: {died}"))
        );
        for (key, workspaces) in &usual {
            let found = recorded.get(key).cloned().unwrap_or_default();
            let expected: Vec<i64> = workspaces.iter().map(|one| one.0.cast_signed()).collect();
            if *key > core || found == expected {
                continue;
            }
            let bytes = |side: &Workspaces<(u64, u32)>| {
                side.get(key).map(|all| all.iter().map(|one| one.0).collect::<Vec<_>>()).unwrap_or_default()
            };
            let place = workspaces[0].1;
            let _ = writeln!(
                text,
                "{key:6} {found:?} | {expected:?} {:?} {:?} | {}",
                bytes(&least),
                bytes(&most),
                described(bound, place)
            );
        }
        for (key, found) in recorded.iter().filter(|(key, _)| !usual.contains_key(key)) {
            let _ = writeln!(text, "{key:6} {found:?} | nothing");
        }
        Ok(text)
    })?
}
