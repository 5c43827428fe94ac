//! The contract's JSON.

use serde::Serialize;
use serde_json::{Map, Value, json};
use vramfit_explain::findings::Pinned;
use vramfit_explain::history::OUTSIDE;
use vramfit_explain::peak::Holder;
use vramfit_explain::roles::Role;
use vramfit_explain::steps::Basis;
use vramfit_explain::{Details, Explanation, Finding};
use vramfit_trace::snapshot::{FrameId, Snapshot};

use super::place::{activity, library_place, place, role, stack};
use super::words::words;

/// How many holders of the peak are listed.
const HOLDERS: usize = 50;

/// The contract's JSON.
#[derive(Debug, Serialize)]
pub struct ExplainReport {
    /// Which GPU of the recording.
    pub device: usize,
    /// How many events were looked at.
    pub events: usize,
    /// Differences between the recording and its replay; with any, sizes are estimates.
    pub mismatches: u64,
    /// The instant at which the most was held.
    pub peak: Value,
    /// The instant at which the most was reserved.
    pub reserved_peak: Value,
    /// The training steps.
    pub steps: Value,
    /// What is wrong, or could be better.
    pub findings: Vec<Value>,
}

impl ExplainReport {
    /// The report on `explanation`.
    pub fn new(snapshot: &Snapshot, explanation: &Explanation) -> ExplainReport {
        ExplainReport {
            device: explanation.device,
            events: explanation.history.allocated.len(),
            mismatches: explanation.history.mismatches,
            peak: peak(snapshot, explanation),
            reserved_peak: reserved_peak(explanation),
            steps: steps(explanation),
            findings: explanation.findings.iter().map(|found| finding(snapshot, explanation, found)).collect(),
        }
    }
}

fn event(number: u32) -> Option<u32> {
    (number != OUTSIDE).then_some(number)
}

fn at(snapshot: &Snapshot, frame: Option<FrameId>) -> Option<String> {
    frame.map(|frame| place(snapshot, frame))
}

fn peak(snapshot: &Snapshot, explanation: &Explanation) -> Value {
    let peak = &explanation.peak;
    let mut breakdown: Map<String, Value> = Map::new();
    for of in Role::ALL {
        let bytes: u64 = peak.holders.iter().filter(|holder| holder.role == of).map(|holder| holder.bytes).sum();
        if bytes > 0 {
            breakdown.insert(role(of).into(), bytes.into());
        }
    }
    let holders: Vec<Value> = peak.holders.iter().take(HOLDERS).map(|held| holder(snapshot, held)).collect();
    json!({
        "event": event(peak.event),
        "time_us": peak.time_us,
        "step": peak.step,
        "phase": activity(peak.activity),
        "allocated": peak.allocated,
        "reserved": peak.reserved,
        "requested": peak.requested,
        "stranded": peak.reserved.saturating_sub(peak.allocated),
        "largest_hole": peak.largest_hole,
        "breakdown": breakdown,
        "holders": holders,
        "holders_left_out": peak.holders.len().saturating_sub(HOLDERS),
    })
}

fn holder(snapshot: &Snapshot, holder: &Holder) -> Value {
    json!({
        "where": at(snapshot, holder.owner),
        "library": library_place(snapshot, holder.stack),
        "role": role(holder.role),
        "phase": holder.activity.map(activity),
        "bytes": holder.bytes,
        "blocks": holder.blocks,
        "largest": holder.largest,
        "stack": stack(snapshot, holder.stack),
    })
}

fn reserved_peak(explanation: &Explanation) -> Value {
    let peak = explanation.reserved_peak;
    json!({
        "event": event(peak.event),
        "reserved": peak.reserved,
        "allocated": peak.allocated,
        "stranded": peak.stranded(),
        "largest_hole": peak.largest_hole,
    })
}

fn steps(explanation: &Explanation) -> Value {
    let steps = &explanation.steps;
    let list: Vec<Value> = steps
        .list
        .iter()
        .map(|step| {
            let levels = &explanation.history.allocated[step.first as usize..step.end as usize];
            let peak = levels.iter().copied().max().unwrap_or(0);
            let after = levels.last().copied().unwrap_or(0);
            json!({"first_event": step.first, "end_event": step.end, "peak": peak, "allocated": after})
        })
        .collect();
    let basis = match steps.basis {
        Basis::Annotations => "annotations",
        Basis::Phases => "forward and backward passes",
        Basis::Calls => "calls of the model",
        Basis::Period => "repetition",
    };
    json!({
        "count": steps.list.len(),
        "told_by": basis,
        "backward_seen": steps.is_training,
        "passes_per_step": steps.passes,
        "list": list,
    })
}

fn finding(snapshot: &Snapshot, explanation: &Explanation, finding: &Finding) -> Value {
    let words = words(snapshot, explanation, finding);
    let mut value = json!({
        "kind": finding.details.kind(),
        "bytes": finding.bytes,
        "per_step": finding.per_step,
        "where": at(snapshot, finding.place),
        "advice": words.advice,
        "title": words.title,
        "facts": words.facts,
        "allocated_at": at(snapshot, finding.made_at),
        "stack": stack(snapshot, finding.stack),
        "first_event": event(finding.events.0),
        "last_event": event(finding.events.1),
    });
    if let (Value::Object(value), Value::Object(more)) = (&mut value, details(snapshot, &finding.details)) {
        value.extend(more);
    }
    value
}

fn details(snapshot: &Snapshot, details: &Details) -> Value {
    match details {
        Details::Leak(leak) => json!({
            "kept": format!("{:?}", leak.kept).to_lowercase(),
            "steps": leak.steps,
            "blocks_per_step": leak.blocks_per_step,
            "released_at": leak.released,
            "places": leak.shares.iter().map(|share| json!({
                "where": at(snapshot, share.place),
                "phase": activity(share.activity),
                "bytes": share.bytes,
                "blocks": share.blocks,
            })).collect::<Vec<_>>(),
        }),
        Details::GraphKept(graph) => json!({
            "passes": graph.passes,
            "per_pass": graph.per_pass,
            "blocks_per_pass": graph.blocks_per_pass,
            "released_at": graph.released,
        }),
        Details::Spike(spike) => json!({
            "phase": activity(spike.activity),
            "blocks": spike.blocks,
            "peak_without": spike.without,
            "with_gradients": spike.has_gradients,
            "places": spike.shares.iter().map(|share| json!({
                "where": at(snapshot, share.place),
                "bytes": share.bytes,
                "blocks": share.blocks,
            })).collect::<Vec<_>>(),
        }),
        Details::Fragmentation(found) => json!({
            "reserved": found.reserved,
            "allocated": found.allocated,
            "pinned": pinned(snapshot, &found.pinned),
            "replayed_peak_reserved": found.replayed,
            "other_settings": found.gains.iter().map(|gain| json!({
                "alloc_conf": gain.text,
                "peak_reserved": gain.peak_reserved,
            })).collect::<Vec<_>>(),
        }),
        Details::Oom(oom) => json!({
            "asked": oom.asked,
            "segment": oom.segment,
            "device_free": oom.device_free,
            "allocated": oom.allocated,
            "reserved": oom.reserved,
            "cause": format!("{:?}", oom.cause).to_lowercase(),
            "failures": oom.count,
            "limit": {"least": oom.limit.least, "most": oom.limit.most, "given": oom.limit.is_given},
            "pinned": pinned(snapshot, &oom.pinned),
            "spare": oom.spare(),
            "reproduced": oom.is_reproduced,
            "other_settings": oom.attempts.iter().map(|attempt| json!({
                "alloc_conf": attempt.text,
                "served": attempt.is_served,
                "perhaps_served": attempt.is_perhaps_served,
            })).collect::<Vec<_>>(),
        }),
    }
}

fn pinned(snapshot: &Snapshot, pinned: &Pinned) -> Value {
    json!({
        "free": pinned.free,
        "segments": pinned.segments,
        "live": pinned.live,
        "cached": pinned.cached,
        "holes": pinned.holes,
        "largest_hole": pinned.largest_hole,
        "by": pinned.by.iter().take(20).map(|line| json!({
            "where": at(snapshot, line.place),
            "role": role(line.role),
            "bytes": line.bytes,
            "blocks": line.blocks,
            "segments": line.segments,
            "free": line.free,
        })).collect::<Vec<_>>(),
    })
}
