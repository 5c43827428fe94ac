//! What a finding says beside what all findings say, by kind.

use serde::Serialize;
use vramfit_explain::findings::{Cause, Kept, LONG_RUN, Limit, Pinned, Share};
use vramfit_explain::{Details, Finding};
use vramfit_trace::snapshot::Snapshot;

use super::super::location::{activity, role};
use super::at;

/// How many lines that pin segments are listed.
const PINNING: usize = 20;

/// The keys that one kind of finding has.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum DetailsReport {
    /// Of a leak.
    Leak {
        /// What is kept.
        kept: KeptName,
        /// In how many steps.
        steps: usize,
        /// Blocks that stay of each step.
        blocks_per_step: u64,
        /// Bytes after 100,000 such steps.
        after_100000_steps: u64,
        /// The event from which on it is freed.
        released_at: Option<u32>,
        /// The lines that allocated it, the largest first.
        places: Vec<PlaceWithPhase>,
    },
    /// Of a graph that an evaluation keeps.
    GraphKept {
        /// Forward passes without `no_grad`.
        passes: usize,
        /// Bytes that each leaves behind.
        per_pass: u64,
        /// Blocks that each leaves behind.
        blocks_per_pass: u64,
        /// The event at which the last of it is freed.
        released_at: Option<u32>,
    },
    /// Of a spike.
    Spike {
        /// What the program was doing.
        phase: &'static str,
        /// How many blocks live only briefly.
        blocks: u64,
        /// The peak without them.
        peak_without: u64,
        /// Whether the backward pass makes gradients of the same size, which are counted with it.
        with_gradients: bool,
        /// The lines that allocated it, the largest first.
        places: Vec<Place>,
    },
    /// Of fragmentation.
    Fragmentation {
        /// Reserved bytes.
        reserved: u64,
        /// Allocated bytes.
        allocated: u64,
        /// Free memory that live blocks pin.
        pinned: PinnedReport,
        /// Peak reserved bytes of a replay under the recorded settings.
        replayed_peak_reserved: u64,
        /// Replays under other settings, the best first.
        other_settings: Vec<GainReport>,
    },
    /// Of an allocation that failed.
    Oom {
        /// Bytes that were requested.
        asked: u64,
        /// Bytes that were requested of the driver.
        segment: u64,
        /// Bytes that were free on the device; null where that is not recorded.
        device_free: Option<u64>,
        /// Allocated bytes.
        allocated: u64,
        /// Reserved bytes.
        reserved: u64,
        /// Why it failed.
        cause: CauseName,
        /// How many allocations failed in the recording.
        failures: usize,
        /// What PyTorch could reserve.
        limit: LimitReport,
        /// Free memory that live blocks pin.
        pinned: PinnedReport,
        /// Bytes that are left under the limit.
        spare: u64,
        /// Whether a replay under the recorded settings fails too.
        reproduced: bool,
        /// Replays under other settings.
        other_settings: Vec<AttemptReport>,
    },
}

/// What a leak keeps.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum KeptName {
    /// The autograd graph, with its activations.
    Graph,
    /// What the model returns.
    Outputs,
    /// Other tensors.
    Tensors,
    /// What the backward pass makes.
    Gradients,
}

impl From<Kept> for KeptName {
    fn from(kept: Kept) -> KeptName {
        match kept {
            Kept::Graph => KeptName::Graph,
            Kept::Outputs => KeptName::Outputs,
            Kept::Tensors => KeptName::Tensors,
            Kept::Gradients => KeptName::Gradients,
        }
    }
}

/// Why an allocation failed.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum CauseName {
    /// More is allocated than there is room for.
    TooMuch,
    /// Enough is free, but in pieces.
    Fragmented,
}

impl From<Cause> for CauseName {
    fn from(cause: Cause) -> CauseName {
        match cause {
            Cause::TooMuch => CauseName::TooMuch,
            Cause::Fragmented => CauseName::Fragmented,
        }
    }
}

/// A line's part in a finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Place {
    /// The user's line: `file.py:12 in train`.
    r#where: Option<String>,
    /// Bytes of its blocks.
    bytes: u64,
    /// How many blocks.
    blocks: u64,
}

/// A line's part in a finding, with what the program was doing.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PlaceWithPhase {
    /// The user's line: `file.py:12 in train`.
    r#where: Option<String>,
    /// What the program was doing.
    phase: &'static str,
    /// Bytes of its blocks.
    bytes: u64,
    /// How many blocks.
    blocks: u64,
}

/// Free memory inside segments that live blocks keep from being given back.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PinnedReport {
    /// Free bytes in such segments.
    free: u64,
    /// How many such segments.
    segments: u64,
    /// Live bytes in them.
    live: u64,
    /// Bytes of segments that are free as a whole.
    cached: u64,
    /// How many free blocks.
    holes: u64,
    /// The largest of them.
    largest_hole: u64,
    /// The lines whose blocks pin the segments.
    by: Vec<PinningReport>,
}

/// A line whose blocks pin segments.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PinningReport {
    /// The user's line: `file.py:12 in train`.
    r#where: Option<String>,
    /// What its blocks are for.
    role: &'static str,
    /// Bytes of its blocks.
    bytes: u64,
    /// How many blocks.
    blocks: u64,
    /// In how many segments.
    segments: u64,
    /// Free bytes beside them.
    free: u64,
}

/// What PyTorch could reserve.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LimitReport {
    /// The lower bound.
    least: u64,
    /// The upper bound.
    most: u64,
    /// Whether it was given with `--vram`.
    given: bool,
}

impl From<Limit> for LimitReport {
    fn from(Limit { least, most, is_given }: Limit) -> LimitReport {
        LimitReport { least, most, given: is_given }
    }
}

/// A replay under other settings, without a limit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GainReport {
    /// The settings.
    alloc_conf: String,
    /// Peak reserved bytes.
    peak_reserved: u64,
}

/// A replay under other settings and the limit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct AttemptReport {
    /// The settings.
    alloc_conf: String,
    /// Whether it is served under the lower bound of the limit.
    served: bool,
    /// Whether it is served under the upper bound.
    perhaps_served: bool,
}

impl DetailsReport {
    pub(super) fn new(snapshot: &Snapshot, finding: &Finding) -> DetailsReport {
        match &finding.details {
            Details::Leak(leak) => DetailsReport::Leak {
                kept: leak.kept.into(),
                steps: leak.steps,
                blocks_per_step: leak.blocks_per_step,
                after_100000_steps: finding.per_step.unwrap_or(0).saturating_mul(LONG_RUN),
                released_at: leak.released,
                places: leak.shares.iter().map(|share| PlaceWithPhase::new(snapshot, share)).collect(),
            },
            Details::GraphKept(graph) => DetailsReport::GraphKept {
                passes: graph.passes,
                per_pass: graph.per_pass,
                blocks_per_pass: graph.blocks_per_pass,
                released_at: graph.released,
            },
            Details::Spike(spike) => DetailsReport::Spike {
                phase: activity(spike.activity),
                blocks: spike.blocks,
                peak_without: spike.without,
                with_gradients: spike.has_gradients,
                places: spike.shares.iter().map(|share| Place::new(snapshot, share)).collect(),
            },
            Details::Fragmentation(found) => DetailsReport::Fragmentation {
                reserved: found.reserved,
                allocated: found.allocated,
                pinned: PinnedReport::new(snapshot, &found.pinned),
                replayed_peak_reserved: found.replayed,
                other_settings: found
                    .gains
                    .iter()
                    .map(|gain| GainReport { alloc_conf: gain.text.clone(), peak_reserved: gain.peak_reserved })
                    .collect(),
            },
            Details::Oom(oom) => DetailsReport::Oom {
                asked: oom.asked,
                segment: oom.segment,
                device_free: oom.device_free,
                allocated: oom.allocated,
                reserved: oom.reserved,
                cause: oom.cause.into(),
                failures: oom.count,
                limit: oom.limit.into(),
                pinned: PinnedReport::new(snapshot, &oom.pinned),
                spare: oom.spare(),
                reproduced: oom.is_reproduced,
                other_settings: oom
                    .attempts
                    .iter()
                    .map(|attempt| AttemptReport {
                        alloc_conf: attempt.text.clone(),
                        served: attempt.is_served,
                        perhaps_served: attempt.is_perhaps_served,
                    })
                    .collect(),
            },
        }
    }
}

impl Place {
    fn new(snapshot: &Snapshot, share: &Share) -> Place {
        Place { r#where: at(snapshot, share.place), bytes: share.bytes, blocks: share.blocks }
    }
}

impl PlaceWithPhase {
    fn new(snapshot: &Snapshot, share: &Share) -> PlaceWithPhase {
        PlaceWithPhase {
            r#where: at(snapshot, share.place),
            phase: activity(share.activity),
            bytes: share.bytes,
            blocks: share.blocks,
        }
    }
}

impl PinnedReport {
    fn new(snapshot: &Snapshot, pinned: &Pinned) -> PinnedReport {
        let by = pinned.by.iter().take(PINNING).map(|line| PinningReport {
            r#where: at(snapshot, line.place),
            role: role(line.role),
            bytes: line.bytes,
            blocks: line.blocks,
            segments: line.segments,
            free: line.free,
        });
        PinnedReport {
            free: pinned.free,
            segments: pinned.segments,
            live: pinned.live,
            cached: pinned.cached,
            holes: pinned.holes,
            largest_hole: pinned.largest_hole,
            by: by.collect(),
        }
    }
}
