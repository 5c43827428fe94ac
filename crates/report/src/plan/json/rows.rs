//! The rows of a plan's lists: changes, groups, points, tricks, GPUs.

use indexmap::IndexMap;
use serde::Serialize;
use vramfit_eager::samples::MeetingKind;
use vramfit_plan::search::{FrontierPoint, Group, SufficientGpu, TrickRow};
use vramfit_plan::tricks::Change;
use vramfit_plan::{SplitCause, Unbound};

use crate::names::{EffectName, GroupName};

/// One change of a plan.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ChangeReport {
    /// The trick's name.
    trick: &'static str,
    /// As it was.
    before: String,
    /// As it is with this change.
    after: String,
    /// Bytes that are no longer reserved at the peak, on top of the changes before it.
    saving: i64,
    /// The time for the same work, by that before this change.
    slowdown: f64,
    /// What it does to the training.
    effect: EffectName,
    /// The group of plans that use it.
    group: GroupName,
    /// What to know about it.
    warning: Option<String>,
    /// Why micro-batches may not add up to the batch that they are parts of.
    split_cause: Option<SplitCauseReport>,
}

/// Why micro-batches may not add up to the batch that they are parts of.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SplitCauseReport {
    /// What it is.
    kind: SplitCauseName,
    /// The operator in which samples meet.
    operator: Option<String>,
    /// The line of the model's code.
    source: Option<String>,
}

/// What keeps micro-batches from adding up.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum SplitCauseName {
    /// Batch norms compute statistics over a micro-batch.
    BatchNorm,
    /// Samples are compared with each other.
    Pairs,
    /// Something else than a mean or sum over the batch comes before the loss.
    Reduced,
    /// A softmax, a sort or a shift runs along the batch.
    Along,
    /// The mean is divided by the weights of the classes that occur.
    ClassWeights,
    /// It cannot be shown that samples do not meet.
    NotShown,
    /// Labels that are ignored may differ in number between micro-batches.
    IgnoredLabels,
}

impl From<&SplitCause> for SplitCauseReport {
    fn from(cause: &SplitCause) -> SplitCauseReport {
        let kind = match cause {
            SplitCause::BatchNorm { .. } => SplitCauseName::BatchNorm,
            SplitCause::IgnoredLabels => SplitCauseName::IgnoredLabels,
            SplitCause::Meeting(meeting) => match meeting.kind {
                MeetingKind::Pairs => SplitCauseName::Pairs,
                MeetingKind::Reduced => SplitCauseName::Reduced,
                MeetingKind::Along => SplitCauseName::Along,
                MeetingKind::ClassWeights => SplitCauseName::ClassWeights,
                MeetingKind::NotFollowed => SplitCauseName::NotShown,
            },
        };
        let (operator, source) = match cause {
            SplitCause::Meeting(meeting) => (Some(meeting.operator.clone()), meeting.source.clone()),
            _ => (None, None),
        };
        SplitCauseReport { kind, operator, source }
    }
}

/// The plans of one risk.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GroupReport {
    /// What its first changes do to the training.
    effect: EffectName,
    /// What its plans risk.
    group: GroupName,
    /// How many combinations there were.
    candidates: usize,
    /// How many of `plans` are of this group.
    plans: usize,
    /// Whether there are none because what fits also fits without this risk, in the same time.
    is_outdone: bool,
    /// Memory against time: what no other candidate of the group beats in both.
    frontier: Vec<PointReport>,
}

/// A candidate in the plot of memory against time.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PointReport {
    /// What it takes of the capacity.
    taken: u64,
    /// The time for the same work, by that of the start.
    slowdown: f64,
    /// Whether that is less than there is.
    fits: bool,
}

/// A trick alone.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TrickReport {
    /// The trick's name.
    trick: &'static str,
    /// What it does to the training.
    effect: EffectName,
    /// The group of plans that use it.
    group: GroupName,
    /// Whether it applies here.
    applies: bool,
    /// Why it does not.
    reason: Option<String>,
    /// The ways to use it.
    options: Vec<OptionReport>,
    /// What else it found.
    findings: Vec<FindingReport>,
    /// What it does not go together with, in words.
    conflicts: &'static str,
    /// How it is written in PyTorch.
    code: &'static str,
}

/// One way to use a trick.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OptionReport {
    /// Which way.
    what: String,
    /// Bytes that are no longer reserved at the peak; negative where it takes more.
    saving: i64,
    /// The same for allocated bytes.
    saving_allocated: i64,
    /// The time for the same work, by that of the start.
    slowdown: f64,
    /// What to know about it.
    warning: Option<String>,
}

/// What a trick found beside ways to use it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FindingReport {
    /// What was found.
    what: String,
    /// The bytes it is about.
    bytes: Option<i64>,
}

/// A GPU of the catalogue.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GpuReport {
    /// Its name.
    name: String,
    /// Bytes it has for a process, at least.
    capacity: u64,
}

/// A candidate that the model cannot be bound to.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UnboundReport {
    /// The model's sizes by name.
    sizes: IndexMap<String, i64>,
    /// The element type that the whole model is cast to.
    dtype: Option<&'static str>,
    /// The element type of autocast.
    amp: Option<&'static str>,
    /// Why it cannot be bound.
    reason: String,
}

impl From<&Change> for ChangeReport {
    fn from(change: &Change) -> ChangeReport {
        ChangeReport {
            trick: change.trick,
            before: change.before.clone(),
            after: change.after.clone(),
            saving: change.saving,
            slowdown: change.slowdown,
            effect: change.risk.effect().into(),
            group: change.risk.into(),
            warning: change.warning.clone(),
            split_cause: change.split_cause.as_ref().map(SplitCauseReport::from),
        }
    }
}

impl From<&Group> for GroupReport {
    fn from(group: &Group) -> GroupReport {
        GroupReport {
            effect: group.risk.effect().into(),
            group: group.risk.into(),
            candidates: group.candidates,
            plans: group.best.iter().count() + group.others.len(),
            is_outdone: group.is_outdone,
            frontier: group.frontier.iter().map(PointReport::from).collect(),
        }
    }
}

impl From<&FrontierPoint> for PointReport {
    fn from(point: &FrontierPoint) -> PointReport {
        PointReport { taken: point.taken, slowdown: point.slowdown, fits: point.fits }
    }
}

impl From<&TrickRow> for TrickReport {
    fn from(row: &TrickRow) -> TrickReport {
        let options = row.options.iter().map(|shown| OptionReport {
            what: shown.what.clone(),
            saving: shown.saving,
            saving_allocated: shown.saving_allocated,
            slowdown: shown.slowdown,
            warning: shown.warning.clone(),
        });
        let findings = row.findings.iter();
        TrickReport {
            trick: row.name,
            effect: row.risk.effect().into(),
            group: row.risk.into(),
            applies: row.reason.is_none(),
            reason: row.reason.clone(),
            options: options.collect(),
            findings: findings
                .map(|finding| FindingReport { what: finding.what.clone(), bytes: finding.bytes })
                .collect(),
            conflicts: row.conflicts,
            code: row.code,
        }
    }
}

impl From<&SufficientGpu> for GpuReport {
    fn from(gpu: &SufficientGpu) -> GpuReport {
        GpuReport { name: gpu.name.clone(), capacity: gpu.capacity }
    }
}

impl From<&Unbound> for UnboundReport {
    fn from(unbound: &Unbound) -> UnboundReport {
        UnboundReport {
            sizes: unbound.sizes.iter().cloned().collect(),
            dtype: unbound.variant.dtype.map(|dtype| dtype.name()),
            amp: unbound.variant.amp.map(|dtype| dtype.name()),
            reason: unbound.reason.to_string(),
        }
    }
}
