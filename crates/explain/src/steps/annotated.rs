//! What the program has marked itself: the profiler's `ProfilerStep#7`, `Optimizer.step#Adam.step`, and its own
//! `record_function` ranges.

use std::collections::HashMap;

use vramfit_trace::snapshot::{Annotation, Event, Snapshot, StringId};

use super::Step;
use crate::history::number;

/// What the profiler calls a step.
const STEP: &str = "ProfilerStep#";
/// What PyTorch calls a step of an optimizer.
const OPTIMIZER: &str = "Optimizer.step#";

/// The annotations that concern GPU `device`, with whether each is a beginning.
fn of_device(snapshot: &Snapshot, device: usize) -> impl Iterator<Item = (&Annotation, bool)> {
    let is_ours =
        move |annotation: &&Annotation| usize::try_from(annotation.device).map_or(true, |number| number == device);
    let is_start = |annotation: &Annotation| snapshot.strings.get(annotation.stage) == "START";
    snapshot.annotations.iter().filter(is_ours).map(move |annotation| (annotation, is_start(annotation)))
}

/// The names of the ranges that are open at `time`, the outermost first.
pub fn open_at(snapshot: &Snapshot, device: usize, time: i64) -> Vec<StringId> {
    let mut open: Vec<StringId> = Vec::new();
    for (annotation, is_start) in of_device(snapshot, device).take_while(|(annotation, _)| annotation.time_us <= time) {
        if is_start {
            open.push(annotation.name);
        } else if let Some(at) = open.iter().rposition(|&name| name == annotation.name) {
            open.remove(at);
        }
    }
    open
}

/// The steps of GPU `device` that the profiler has marked, in order; none where there are no marks or the clock cannot
/// be trusted.
pub fn steps(snapshot: &Snapshot, device: usize, events: &[Event]) -> Vec<Step> {
    let mut open = HashMap::new();
    let mut found = Vec::new();
    for (annotation, is_start) in of_device(snapshot, device) {
        if !snapshot.strings.get(annotation.name).starts_with(STEP) {
            continue;
        }
        if is_start {
            open.insert(annotation.name, annotation.time_us);
        } else if let Some(begun) = open.remove(&annotation.name) {
            found.push((begun, annotation.time_us));
        }
    }
    found.sort_unstable();
    found.dedup();
    lay_out(events, &found)
}

/// When the optimizer's steps ended.
fn optimizer_ends(snapshot: &Snapshot, device: usize) -> Vec<i64> {
    let is_optimizer = |annotation: &Annotation| snapshot.strings.get(annotation.name).starts_with(OPTIMIZER);
    let ends = of_device(snapshot, device).filter(|(annotation, is_start)| !is_start && is_optimizer(annotation));
    let mut ends: Vec<i64> = ends.map(|(annotation, _)| annotation.time_us).collect();
    ends.sort_unstable();
    ends
}

/// The events before which the optimizer's steps ended, also of optimizers that allocate nothing.
pub fn optimizer_events(snapshot: &Snapshot, device: usize, events: &[Event]) -> Vec<u32> {
    if !events.is_sorted_by_key(|event| event.time_us) {
        return Vec::new();
    }
    let at = |time: i64| number(events.partition_point(|event| event.time_us < time));
    optimizer_ends(snapshot, device).into_iter().map(at).collect()
}

/// The steps between the ends of the optimizer's steps, the first from the first mark of any kind on.
pub fn optimizer_steps(snapshot: &Snapshot, device: usize, events: &[Event]) -> Vec<Step> {
    let first = of_device(snapshot, device).map(|(annotation, _)| annotation.time_us).min();
    let ends = optimizer_ends(snapshot, device);
    let begins = first.into_iter().chain(ends.iter().copied());
    let found: Vec<(i64, i64)> = begins.zip(ends.iter().copied()).collect();
    lay_out(events, &found)
}

/// The stretches of time as stretches of events.
fn lay_out(events: &[Event], found: &[(i64, i64)]) -> Vec<Step> {
    if !events.is_sorted_by_key(|event| event.time_us) {
        return Vec::new();
    }
    let at = |time: i64| number(events.partition_point(|event| event.time_us < time));
    let mut list: Vec<Step> = Vec::new();
    for &(begun, ended) in found {
        let step = Step { first: at(begun), end: at(ended) };
        if step.first < step.end && list.last().is_none_or(|last| last.end <= step.first) {
            list.push(step);
        }
    }
    list
}
