//! A run that was traced under a cap (`validation/maxbatch/trace_capped.py`): the workspaces that its convolutions requested,
//! also those that failed, beside the simulated ones.

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
use crate::measured::{RecordedTrace, measured, read_compressed};
use crate::recordings::Result;
use crate::simulation::with_bound;

#[derive(Deserialize)]
struct Traced {
    case: String,
    batch: i64,
    #[serde(rename = "died")]
    failure: Option<String>,
    trace: RecordedTrace,
}

/// Memory that is freed right after it was allocated, by the number of other events before it.
type Workspaces<T> = BTreeMap<usize, Vec<T>>;

/// The recorded workspaces; requests that failed are negative. Also the number of other events.
fn recorded(trace: &RecordedTrace) -> (Workspaces<i64>, usize) {
    let events = recorded_events(trace);
    let mut failures =
        trace.actions.char_indices().filter(|(_, action)| *action == 'o').map(|(index, _)| index).peekable();
    let (mut found, mut others, mut allocated, mut next) = (Workspaces::new(), 0, 0, 0);
    while next < events.len() {
        let (event, index) = events[next];
        while let Some(failed) = failures.next_if(|failed| *failed < index) {
            found.entry(others).or_default().push(-trace.sizes[failed].cast_signed());
        }
        next += 1;
        let Event::Allocate(bytes) = event else {
            others += 1;
            continue;
        };
        if events.get(next).map(|event| event.0) == Some(Event::Free(allocated)) {
            found.entry(others).or_default().push(bytes.cast_signed());
            next += 1;
        } else {
            others += 1;
        }
        allocated += 1;
    }
    (found, others)
}

/// The simulated workspaces, each with the index of its step. Also the number of other events.
fn simulated(journal: &[Entry]) -> (Workspaces<(u64, u32)>, usize) {
    let (mut found, mut others, mut next) = (Workspaces::new(), 0, 0);
    while let Some(entry) = journal.get(next) {
        next += 1;
        match (entry, journal.get(next)) {
            (Entry::Allocate { id, bytes, origin, .. }, Some(Entry::Free { id: freed })) if id == freed => {
                if *bytes > 0 {
                    found.entry(others).or_default().push((*bytes, *origin));
                }
                next += 1;
            }
            _ => others += 1,
        }
    }
    (found, others)
}

/// The convolution's tensors and geometry, in words.
fn described(bound: &Bound<'_>, step: u32) -> String {
    let Some(BoundStep::Call(call)) = bound.steps.get(step as usize) else { return String::new() };
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

/// Every convolution whose workspaces differ.
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
        let requested = |scenario| {
            let program =
                record(bound, &Loop { scenario, ..options.clone() }, H200).map_err(|error| error.to_string())?;
            Ok::<_, String>(simulated(&program.journal()))
        };
        let ((expected, simulated_core), (lower, _), (upper, _)) =
            (requested(Scenario::Expected)?, requested(Scenario::Lower)?, requested(Scenario::Upper)?);
        let mut text = format!(
            "{} at {}{}: {core} events of other memory, {simulated_core} simulated; failed requests are negative\n",
            traced.case,
            traced.batch,
            traced.failure.map_or_else(String::new, |error| format!(", which failed: {error}"))
        );
        for (key, workspaces) in &expected {
            let found = recorded.get(key).cloned().unwrap_or_default();
            let sizes: Vec<i64> = workspaces.iter().map(|one| one.0.cast_signed()).collect();
            if *key > core || found == sizes {
                continue;
            }
            let bytes = |side: &Workspaces<(u64, u32)>| {
                side.get(key).map(|all| all.iter().map(|one| one.0).collect::<Vec<_>>()).unwrap_or_default()
            };
            let step = workspaces[0].1;
            let _ = writeln!(
                text,
                "{key:6} {found:?} | {sizes:?} {:?} {:?} | {}",
                bytes(&lower),
                bytes(&upper),
                described(bound, step)
            );
        }
        for (key, found) in recorded.iter().filter(|(key, _)| !expected.contains_key(key)) {
            let _ = writeln!(text, "{key:6} {found:?} | nothing");
        }
        Ok(text)
    })?
}
