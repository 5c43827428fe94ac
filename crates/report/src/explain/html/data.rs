//! The recording, packed for the page.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use vramfit_explain::history::OUTSIDE;
use vramfit_explain::origin::{Activity, FrameKind};
use vramfit_explain::roles::Role;
use vramfit_explain::{Explanation, Finding};
use vramfit_trace::snapshot::{Action, FrameId, Snapshot, StackId, StringId};
use vramfit_trace::start::Start;

use crate::explain::location::{activity, role};
use crate::viewer::columns::Columns;
use crate::viewer::compress;

/// How many allocations of a finding are listed; more cannot be distinguished on a screen.
const ALLOCATIONS: usize = 200_000;

/// The columns, compressed.
pub fn pack(snapshot: &Snapshot, explanation: &Explanation) -> Vec<u8> {
    let mut columns = Columns::default();
    let mut tables = Tables::default();
    let changes = segment_changes(snapshot, explanation);
    let lowest = lowest_address(explanation, &changes);
    add_allocations(&mut columns, &mut tables, snapshot, explanation, lowest);
    add_times(&mut columns, snapshot, explanation);
    add_changes(&mut columns, &changes, lowest);
    tables.add_to(&mut columns, snapshot);
    for (index, finding) in explanation.findings.iter().enumerate() {
        let named = finding.allocations.iter().take(ALLOCATIONS);
        columns.add_differences(&format!("finding{index}"), named.map(|&index| index.into()));
    }
    let packed = columns.finish(head(snapshot, explanation, &tables, lowest));
    compress(&packed)
}

fn head(snapshot: &Snapshot, explanation: &Explanation, tables: &Tables, lowest: u64) -> Map<String, Value> {
    let event = |event: u32| if event == OUTSIDE { -1 } else { i64::from(event) };
    let steps: Vec<Value> = explanation.steps.list.iter().map(|step| json!([step.first, step.end])).collect();
    let findings = explanation.findings.iter().map(|finding: &Finding| {
        json!({
            "kind": finding.details.kind(),
            "bytes": finding.bytes,
            "first": event(finding.events.0),
            "last": event(finding.events.1),
        })
    });
    let device = &snapshot.devices[explanation.device];
    let ooms = device.events.iter().enumerate().filter(|(_, event)| event.action == Action::Oom);
    let head = json!({
        "events": explanation.history.allocated.len(),
        "lowestAddress": lowest.to_string(),
        "earlier": explanation.history.earlier,
        "hasFrames": explanation.origins.has_frames,
        "steps": steps,
        "phases": phases(explanation),
        "unfinished": explanation.steps.unfinished,
        "roles": Role::ALL.map(role),
        "findings": findings.collect::<Vec<_>>(),
        "peak": event(explanation.peak.event),
        "reservedPeak": event(explanation.reserved_peak.event),
        "ooms": ooms.map(|(index, event)| json!([index, event.size])).collect::<Vec<_>>(),
        "strings": tables.strings.iter().map(|&id| snapshot.strings.get(id)).collect::<Vec<_>>(),
    });
    match head {
        Value::Object(head) => head,
        _ => Map::new(),
    }
}

/// What the program was doing, from instant to instant: forward, backward, optimizer.
fn phases(explanation: &Explanation) -> Vec<Value> {
    let events = explanation.history.allocated.len() as u32;
    let mut runs: Vec<(u32, u32, Activity)> = Vec::new();
    let is_known = |activity: Activity| !matches!(activity, Activity::Other | Activity::Unknown);
    for span in explanation.phases.spans.iter().filter(|span| is_known(span.activity)) {
        let end = if span.end_event == OUTSIDE { events } else { span.end_event };
        match runs.last_mut() {
            // What is between two parts of one pass, such as the loss, does not separate them.
            Some((first, last, activity))
                if *activity == span.activity && (span.first_event - *last) * 4 <= end - *first =>
            {
                *last = end;
            }
            _ => runs.push((span.first_event, end, span.activity)),
        }
    }
    runs.iter().map(|(first, end, doing)| json!([first, end, activity(*doing)])).collect()
}

/// Each allocation: when it was made, how long it lived, its address and size, and whose it is.
fn add_allocations(
    columns: &mut Columns,
    tables: &mut Tables,
    snapshot: &Snapshot,
    explanation: &Explanation,
    lowest: u64,
) {
    let lifetimes = &explanation.history.lifetimes;
    // Instants count events that have happened: 0 is before the first.
    let born = |birth: u32| if birth == OUTSIDE { 0 } else { u64::from(birth) + 1 };
    columns.add_differences("born", lifetimes.iter().map(|lifetime| born(lifetime.birth)));
    columns.add(
        "lived",
        lifetimes.iter().map(|lifetime| match lifetime.death {
            OUTSIDE => 0,
            death => (u64::from(death) + 1).saturating_sub(born(lifetime.birth)).max(1),
        }),
    );
    columns.add(
        "pending",
        lifetimes.iter().map(|lifetime| match (lifetime.death, lifetime.reusable) {
            (OUTSIDE, _) => 0,
            (_, OUTSIDE) => u64::from(OUTSIDE),
            (death, reusable) => u64::from(reusable.saturating_sub(death).saturating_sub(1)),
        }),
    );
    columns.add_differences("address", lifetimes.iter().map(|lifetime| lifetime.address.saturating_sub(lowest)));
    columns.add("size", lifetimes.iter().map(|lifetime| lifetime.size));
    columns.add("tail", lifetimes.iter().map(|lifetime| lifetime.size.saturating_sub(lifetime.requested)));
    columns.add("stream", lifetimes.iter().map(|lifetime| lifetime.stream));
    let stacks: Vec<u64> = lifetimes.iter().map(|lifetime| tables.stack(snapshot, lifetime.stack)).collect();
    columns.add("stack", stacks.into_iter());
    let place = |role: Role| Role::ALL.iter().position(|&other| other == role).unwrap_or(0) as u64;
    columns.add("role", explanation.roles.iter().map(|&role| place(role)));
    let owners = tables.used.iter().map(|&stack| explanation.origins.get(stack).owner);
    let owners: Vec<Option<FrameId>> = owners.collect();
    let owners: Vec<u64> =
        owners.into_iter().map(|owner| owner.map_or(0, |id| tables.frame(snapshot, id) + 1)).collect();
    columns.add("stackOwner", owners.into_iter());
}

/// The clock, in microseconds since the first event.
fn add_times(columns: &mut Columns, snapshot: &Snapshot, explanation: &Explanation) {
    let events = &snapshot.devices[explanation.device].events;
    let first = events.first().map_or(0, |event| event.time_us);
    let since = |time: i64| u64::try_from(time.saturating_sub(first)).unwrap_or(0);
    columns.add_differences("time", events.iter().map(|event| since(event.time_us)));
}

/// Memory that came from the driver or went back to it.
struct SegmentChange {
    /// How many events have happened.
    instant: u64,
    /// 0 and 2 came, 1 and 3 went; 2 and 3 are pages of expandable segments.
    kind: u64,
    address: u64,
    size: u64,
}

fn segment_changes(snapshot: &Snapshot, explanation: &Explanation) -> Vec<SegmentChange> {
    let device = &snapshot.devices[explanation.device];
    let start = Start::of(device);
    let at_start = start.segments.iter().map(|segment| {
        let kind = if segment.is_expandable { 2 } else { 0 };
        SegmentChange { instant: 0, kind, address: segment.address, size: segment.size }
    });
    let later = device.events.iter().enumerate().filter_map(|(index, event)| {
        let kind = match event.action {
            Action::SegmentAlloc => 0,
            Action::SegmentFree => 1,
            Action::SegmentMap => 2,
            Action::SegmentUnmap => 3,
            _ => return None,
        };
        Some(SegmentChange { instant: index as u64 + 1, kind, address: event.address, size: event.size })
    });
    at_start.chain(later).collect()
}

/// Addresses are relative to the lowest one: a browser's numbers are exact up to 2^53 only.
fn lowest_address(explanation: &Explanation, changes: &[SegmentChange]) -> u64 {
    let blocks = explanation.history.lifetimes.iter().map(|lifetime| lifetime.address);
    blocks.chain(changes.iter().map(|change| change.address)).min().unwrap_or(0)
}

fn add_changes(columns: &mut Columns, changes: &[SegmentChange], lowest: u64) {
    columns.add_differences("segmentAt", changes.iter().map(|change| change.instant));
    columns.add("segmentKind", changes.iter().map(|change| change.kind));
    columns.add_differences("segmentAddress", changes.iter().map(|change| change.address.saturating_sub(lowest)));
    columns.add("segmentSize", changes.iter().map(|change| change.size));
}

/// The strings, frames and stacks that the allocations use, renumbered.
#[derive(Default)]
struct Tables {
    used: Vec<StackId>,
    stacks: HashMap<StackId, u64>,
    frames: HashMap<FrameId, u64>,
    frame_list: Vec<FrameId>,
    stack_frames: Vec<u64>,
    strings: Vec<StringId>,
    string_numbers: HashMap<StringId, u64>,
}

impl Tables {
    fn stack(&mut self, snapshot: &Snapshot, stack: StackId) -> u64 {
        if let Some(&number) = self.stacks.get(&stack) {
            return number;
        }
        let number = self.used.len() as u64;
        self.used.push(stack);
        self.stacks.insert(stack, number);
        for &id in snapshot.stacks.frame_ids(stack) {
            let frame = self.frame(snapshot, id);
            self.stack_frames.push(frame);
        }
        number
    }

    fn frame(&mut self, snapshot: &Snapshot, id: FrameId) -> u64 {
        let next = self.frame_list.len() as u64;
        let number = *self.frames.entry(id).or_insert(next);
        if number == next {
            self.frame_list.push(id);
            let frame = snapshot.stacks.frame(id);
            self.string(frame.file);
            self.string(frame.function);
        }
        number
    }

    fn string(&mut self, id: StringId) -> u64 {
        let next = self.strings.len() as u64;
        let number = *self.string_numbers.entry(id).or_insert(next);
        if number == next {
            self.strings.push(id);
        }
        number
    }

    fn add_to(&self, columns: &mut Columns, snapshot: &Snapshot) {
        let frames = || self.frame_list.iter().map(|&id| snapshot.stacks.frame(id));
        columns.add("frameFile", frames().map(|frame| self.string_numbers[&frame.file]));
        columns.add("frameLine", frames().map(|frame| frame.line.into()));
        columns.add("frameFunction", frames().map(|frame| self.string_numbers[&frame.function]));
        let is_user = |&id: &FrameId| FrameKind::of(snapshot.stacks.frame(id), &snapshot.strings) == FrameKind::User;
        columns.add("frameIsUser", self.frame_list.iter().map(|id| u64::from(is_user(id))));
        let lengths = self.used.iter().map(|&stack| snapshot.stacks.frame_ids(stack).len() as u64);
        columns.add("stackLength", lengths);
        columns.add("stackFrames", self.stack_frames.iter().copied());
    }
}
