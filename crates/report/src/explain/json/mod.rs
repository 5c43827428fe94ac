//! The answer of `vramfit explain --json`.

mod details;

use indexmap::IndexMap;
use serde::Serialize;
use vramfit_explain::history::OUTSIDE;
use vramfit_explain::peak::Holder;
use vramfit_explain::roles::Role;
use vramfit_explain::steps::Basis;
use vramfit_explain::{Details, Explanation, Finding};
use vramfit_trace::snapshot::{FrameId, Snapshot};

use super::location::{activity, library_location, location, role, stack};
use super::words::words;
use details::DetailsReport;

/// How many holders of the peak are listed.
const HOLDERS: usize = 50;

/// The answer of `vramfit explain --json`. Sizes are bytes; events are counted from 0.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainReport {
    /// The GPU of the recording, by number.
    pub device: usize,
    /// How many events were looked at.
    pub events: usize,
    /// Differences between the recording and its replay; with any, sizes are estimates.
    pub mismatches: u64,
    /// The instant of the peak allocated bytes.
    peak: PeakReport,
    /// The instant of the peak reserved bytes.
    reserved_peak: ReservedPeakReport,
    /// The training steps.
    steps: StepsReport,
    /// What is wrong, or could be better.
    pub(crate) findings: Vec<FindingReport>,
}

/// The instant of the peak allocated bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeakReport {
    /// Its event; null before the first.
    event: Option<u32>,
    /// Microseconds since the first event.
    time_us: Option<i64>,
    /// The step, counted from 0.
    step: Option<usize>,
    /// What the program was doing: `forward`, `backward`, `optimizer`, `other` or `unknown`.
    phase: &'static str,
    /// The program's own annotations that are open, the outermost first.
    annotations: Vec<String>,
    /// Allocated bytes.
    allocated: u64,
    /// Reserved bytes.
    reserved: u64,
    /// Bytes that the program requested.
    requested: u64,
    /// Reserved bytes that are not allocated.
    stranded: u64,
    /// The largest free block.
    largest_hole: u64,
    /// Bytes by what they are for.
    breakdown: IndexMap<String, u64>,
    /// Who holds memory, the largest first.
    holders: Vec<HolderReport>,
    /// How many smaller holders are not listed.
    holders_left_out: usize,
}

/// A line of the program that holds memory.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct HolderReport {
    /// The user's line: `file.py:12 in train`.
    r#where: Option<String>,
    /// The library's line inside that.
    library: Option<String>,
    /// What the memory is for.
    role: &'static str,
    /// What the program was doing when it allocated it.
    phase: Option<&'static str>,
    /// Bytes of its blocks.
    bytes: u64,
    /// How many blocks.
    blocks: u64,
    /// The largest of them.
    largest: u64,
    /// The frames of the largest, the innermost first.
    stack: Vec<String>,
}

/// The instant of the peak reserved bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReservedPeakReport {
    /// Its event; null before the first.
    event: Option<u32>,
    /// Reserved bytes.
    reserved: u64,
    /// Allocated bytes.
    allocated: u64,
    /// Reserved bytes that are not allocated.
    stranded: u64,
    /// Those of them in segments that live blocks share; the others are whole segments, which can be given back.
    pinned: u64,
    /// The largest free block.
    largest_hole: u64,
}

/// The training steps of a recording.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepsReport {
    /// How many are complete.
    count: usize,
    /// What they were recognized by.
    told_by: BasisName,
    /// Whether a backward pass was seen.
    backward_seen: bool,
    /// Forward passes in a step.
    passes_per_step: usize,
    /// The steps in order.
    list: Vec<StepRow>,
}

/// What steps are recognized by.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
enum BasisName {
    /// The program's own annotations.
    #[serde(rename = "annotations")]
    Annotations,
    /// Forward and backward passes in the call stacks.
    #[serde(rename = "forward and backward passes")]
    Phases,
    /// Calls of the model.
    #[serde(rename = "calls of the model")]
    Calls,
    /// Requests that repeat.
    #[serde(rename = "repetition")]
    Period,
}

/// A training step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepRow {
    /// Its first event.
    first_event: u32,
    /// The event after its last.
    end_event: u32,
    /// Peak allocated bytes within it.
    peak: u64,
    /// Allocated bytes at its end.
    allocated: u64,
}

/// Something found.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FindingReport {
    /// What kind of finding it is.
    kind: KindName,
    /// Whether it only tells what is there: a note is no reason for exit code 1.
    note: bool,
    /// How many bytes it is about.
    bytes: u64,
    /// Bytes a training step, for what grows.
    per_step: Option<u64>,
    /// The user's line to look at: `file.py:12 in train`.
    r#where: Option<String>,
    /// What to do about it.
    advice: String,
    /// The finding in one line.
    title: String,
    /// What the numbers say.
    facts: Vec<String>,
    /// The user's line that allocated most of it, which may be inside the model.
    allocated_at: Option<String>,
    /// The frames of its largest part, the innermost first.
    stack: Vec<String>,
    /// The first event to look at; null before the first of the recording.
    first_event: Option<u32>,
    /// The last event to look at.
    last_event: Option<u32>,
    #[serde(flatten)]
    details: DetailsReport,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum KindName {
    /// Memory grows from step to step.
    Leak,
    /// An allocation failed.
    Oom,
    /// Much is reserved that cannot be used.
    Fragmentation,
    /// An evaluation keeps what only a backward pass needs.
    GraphKept,
    /// Something brief sets the peak.
    Spike,
}

impl From<&Details> for KindName {
    fn from(details: &Details) -> KindName {
        match details {
            Details::Leak(_) => KindName::Leak,
            Details::Oom(_) => KindName::Oom,
            Details::Fragmentation(_) => KindName::Fragmentation,
            Details::GraphKept(_) => KindName::GraphKept,
            Details::Spike(_) => KindName::Spike,
        }
    }
}

impl ExplainReport {
    /// The report on `explanation`.
    pub fn new(snapshot: &Snapshot, explanation: &Explanation) -> ExplainReport {
        let findings = explanation.findings.iter();
        ExplainReport {
            device: explanation.device,
            events: explanation.history.allocated.len(),
            mismatches: explanation.history.mismatches,
            peak: PeakReport::new(snapshot, explanation),
            reserved_peak: ReservedPeakReport::new(explanation),
            steps: StepsReport::new(explanation),
            findings: findings.map(|found| FindingReport::new(snapshot, explanation, found)).collect(),
        }
    }
}

fn event(number: u32) -> Option<u32> {
    (number != OUTSIDE).then_some(number)
}

fn at(snapshot: &Snapshot, frame: Option<FrameId>) -> Option<String> {
    frame.map(|frame| location(snapshot, frame))
}

impl PeakReport {
    fn new(snapshot: &Snapshot, explanation: &Explanation) -> PeakReport {
        let peak = &explanation.peak;
        let bytes = |of: Role| -> u64 {
            peak.holders.iter().filter(|holder| holder.role == of).map(|holder| holder.bytes).sum()
        };
        let breakdown = Role::ALL.into_iter().map(|of| (role(of).to_owned(), bytes(of)));
        let holders = peak.holders.iter().take(HOLDERS);
        PeakReport {
            event: event(peak.event),
            time_us: peak.time_us,
            step: peak.step,
            phase: activity(peak.activity),
            annotations: peak.marks.iter().map(|&name| snapshot.strings.get(name).to_owned()).collect(),
            allocated: peak.allocated,
            reserved: peak.reserved,
            requested: peak.requested,
            stranded: peak.reserved.saturating_sub(peak.allocated),
            largest_hole: peak.largest_hole,
            breakdown: breakdown.filter(|(_, bytes)| *bytes > 0).collect(),
            holders: holders.map(|holder| HolderReport::new(snapshot, holder)).collect(),
            holders_left_out: peak.holders.len().saturating_sub(HOLDERS),
        }
    }
}

impl HolderReport {
    fn new(snapshot: &Snapshot, holder: &Holder) -> HolderReport {
        HolderReport {
            r#where: at(snapshot, holder.owner),
            library: library_location(snapshot, holder.stack),
            role: role(holder.role),
            phase: holder.activity.map(activity),
            bytes: holder.bytes,
            blocks: holder.blocks,
            largest: holder.largest,
            stack: stack(snapshot, holder.stack),
        }
    }
}

impl ReservedPeakReport {
    fn new(explanation: &Explanation) -> ReservedPeakReport {
        let peak = explanation.reserved_peak;
        ReservedPeakReport {
            event: event(peak.event),
            reserved: peak.reserved,
            allocated: peak.allocated,
            stranded: peak.stranded(),
            pinned: peak.pinned,
            largest_hole: peak.largest_hole,
        }
    }
}

impl StepsReport {
    fn new(explanation: &Explanation) -> StepsReport {
        let steps = &explanation.steps;
        let list = steps.list.iter().map(|step| {
            let levels = &explanation.history.allocated[step.first as usize..step.end as usize];
            StepRow {
                first_event: step.first,
                end_event: step.end,
                peak: levels.iter().copied().max().unwrap_or(0),
                allocated: levels.last().copied().unwrap_or(0),
            }
        });
        StepsReport {
            count: steps.list.len(),
            told_by: match steps.basis {
                Basis::Annotations => BasisName::Annotations,
                Basis::Phases => BasisName::Phases,
                Basis::Calls => BasisName::Calls,
                Basis::Period => BasisName::Period,
            },
            backward_seen: steps.is_training,
            passes_per_step: steps.passes,
            list: list.collect(),
        }
    }
}

impl FindingReport {
    fn new(snapshot: &Snapshot, explanation: &Explanation, finding: &Finding) -> FindingReport {
        let words = words(snapshot, explanation, finding);
        FindingReport {
            kind: KindName::from(&finding.details),
            note: finding.is_note(),
            bytes: finding.bytes,
            per_step: finding.per_step,
            r#where: at(snapshot, finding.place),
            advice: words.advice,
            title: words.title,
            facts: words.facts,
            allocated_at: at(snapshot, finding.made_at),
            stack: stack(snapshot, finding.stack),
            first_event: event(finding.events.0),
            last_event: event(finding.events.1),
            details: DetailsReport::new(snapshot, finding),
        }
    }
}
