//! What is wrong, or could be better: facts with numbers and source lines.

mod fragmentation;
mod graph_kept;
mod leak;
mod oom;
mod passes;
mod pinned;
mod settings;
mod spike;

use vramfit_allocator::Settings;
use vramfit_trace::snapshot::{Device, FrameId, StackId};
use vramfit_trace::start::Start;

use crate::history::History;
use crate::origin::{Activity, Origins};
use crate::peak::ReservedPeak;
use crate::phases::Phases;
use crate::roles::Role;
use crate::steps::Steps;

pub use fragmentation::Fragmentation;
pub use graph_kept::GraphKept;
pub use leak::{Kept, Leak};
pub use oom::{Cause, Limit, OutOfMemory};
pub use pinned::{Pinned, Pinning};
pub use settings::{Attempt, Change, Gain};
pub use spike::Spike;

/// Steps of a long training: for these, slow growth is extrapolated.
pub const LONG_RUN: u64 = 100_000;

/// Something found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How many bytes it is about.
    pub bytes: u64,
    /// Bytes per training step, for what grows.
    pub per_step: Option<u64>,
    /// The user's line to look at; `None` if unknown.
    pub place: Option<FrameId>,
    /// The user's line that made most of it, which may be inside the model.
    pub made_at: Option<FrameId>,
    /// The whole stack of its largest part.
    pub stack: StackId,
    /// The events to look at, first and last.
    pub events: (u32, u32),
    /// The allocations it is about, by number.
    pub allocations: Vec<u32>,
    /// What it is.
    pub details: Details,
}

/// What a finding is, by kind.
#[derive(Clone, Debug)]
pub enum Details {
    /// Memory grows from step to step.
    Leak(Leak),
    /// An allocation failed.
    Oom(OutOfMemory),
    /// Much memory is reserved and cannot be used.
    Fragmentation(Fragmentation),
    /// An evaluation keeps what only a backward pass would need.
    GraphKept(GraphKept),
    /// Something short-lived sets the peak.
    Spike(Spike),
}

impl Finding {
    /// Whether it only tells what is there: what a loss or an optimizer needs for a moment is no mistake, though it may be made
    /// smaller.
    pub fn is_note(&self) -> bool {
        matches!(self.details, Details::Spike(_))
    }
}

impl Details {
    /// Its name in the JSON output.
    pub fn kind(&self) -> &'static str {
        match self {
            Details::Leak(_) => "leak",
            Details::Oom(_) => "oom",
            Details::Fragmentation(_) => "fragmentation",
            Details::GraphKept(_) => "graph-kept",
            Details::Spike(_) => "spike",
        }
    }
}

/// A line's part in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The user's line; `None` where unknown.
    pub place: Option<FrameId>,
    /// What the program was doing.
    pub activity: Activity,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// What findings are derived from.
#[derive(Clone, Copy)]
pub(crate) struct Evidence<'a> {
    pub device: &'a Device,
    pub start: &'a Start,
    pub settings: &'a Settings,
    pub vram: Option<u64>,
    pub history: &'a History,
    pub origins: &'a Origins,
    pub phases: &'a Phases,
    pub steps: &'a Steps,
    pub roles: &'a [Role],
    pub reserved_peak: ReservedPeak,
}

impl Evidence<'_> {
    /// The user's line behind an event with `stack`; for autograd, the line that called `backward`.
    fn line_of(&self, stack: StackId, event: u32) -> Option<FrameId> {
        let line = || self.phases.span_at(event).filter(|span| span.activity == Activity::Backward)?.line;
        self.origins.get(stack).caller.or_else(line)
    }

    /// Whether growth of `bytes` a step ends a long run, however little it is in the recorded steps.
    fn is_material_in_time(&self, per_step: u64) -> bool {
        let (_, peak) = self.history.peak_allocated();
        let grown = per_step.saturating_mul(LONG_RUN);
        grown >= 256 << 20 && grown >= peak / 4
    }

    /// Whether growth of `bytes` is worth reporting: at least 1 % of the peak, or 8 MiB; never below 64 KiB. A list of
    /// losses, 512 bytes per step, is not.
    fn is_material(&self, bytes: u64) -> bool {
        let (_, peak) = self.history.peak_allocated();
        bytes >= 64 << 10 && (bytes >= 8 << 20 || bytes >= peak / 100)
    }
}

/// All findings: first what ends a run, then what grows, then what could be less.
pub(crate) fn all(evidence: Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(oom::find(&evidence));
    let kept_graphs = graph_kept::find(&evidence);
    findings.extend(leak::find(&evidence, &kept_graphs));
    findings.extend(kept_graphs);
    findings.extend(fragmentation::find(&evidence));
    findings.extend(spike::find(&evidence));
    findings
}

/// The median, the lower one of two.
pub(crate) fn median(mut values: Vec<u64>) -> u64 {
    if values.is_empty() {
        return 0;
    }
    let middle = (values.len() - 1) / 2;
    *values.select_nth_unstable(middle).1
}
