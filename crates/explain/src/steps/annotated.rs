//! Steps that the program has marked itself: the profiler's `ProfilerStep#7`.

use std::collections::HashMap;

use vramfit_trace::snapshot::{Event, Snapshot};

use super::Step;
use crate::history::number;

/// What the profiler calls a step.
const PREFIX: &str = "ProfilerStep#";

/// The marked steps of GPU `device`, in order; none where there are no marks or the clock cannot be trusted.
pub fn steps(snapshot: &Snapshot, device: usize, events: &[Event]) -> Vec<Step> {
    if !events.is_sorted_by_key(|event| event.time_us) {
        return Vec::new();
    }
    let mut open = HashMap::new();
    let mut found = Vec::new();
    for annotation in &snapshot.annotations {
        let is_ours = usize::try_from(annotation.device).map_or(true, |number| number == device);
        if !is_ours || !snapshot.strings.get(annotation.name).starts_with(PREFIX) {
            continue;
        }
        if snapshot.strings.get(annotation.stage) == "START" {
            open.insert(annotation.name, annotation.time_us);
        } else if let Some(begun) = open.remove(&annotation.name) {
            found.push((begun, annotation.time_us));
        }
    }
    found.sort_unstable();
    found.dedup();
    let at = |time: i64| number(events.partition_point(|event| event.time_us < time));
    let mut list: Vec<Step> = Vec::new();
    for (begun, ended) in found {
        let step = Step { first: at(begun), end: at(ended) };
        if step.first < step.end && list.last().is_none_or(|last| last.end <= step.first) {
            list.push(step);
        }
    }
    list
}
