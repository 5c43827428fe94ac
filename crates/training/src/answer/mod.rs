//! What a simulated training answers for a GPU: the expected run, the bounds of its peaks with their causes, whether that is exact,
//! and whether it fits.
//!
//! [`Scenarios`] records what a training may request; [`Answer`] is made of all simulations of that, once. `estimate`, `plan`
//! and `max-batch` ask the same.

mod cause;
mod certainty;
mod device;
mod fit;
mod peaks;
mod range;
mod runs;
mod scenarios;
#[cfg(test)]
mod tests;

pub use cause::{Cause, Causes, Counted};
pub use device::{CapacityKind, Device, NCCL, STREAMS};
pub use fit::{Fit, GpuMemory, Shortage, Verdict};
pub use peaks::TopPeaks;
pub use range::Range;
pub use runs::{AlternativeRuns, Runs};
pub use scenarios::{BeyondAddresses, Fitting, Scenarios};

use certainty::Certainty;
use device::Slack;
use vramfit_catalogue::ContextBytes;

use crate::report::{Account, Run};

/// What may skip updates in a recorded script, and what the lower bounds are then.
const SKIPPED_UPDATES: &str =
    "a GradScaler skips updates whose gradients overflow, as those of the first steps may: the lower bound has none";

/// Why blocks of assumed sizes leave bounds.
const ASSUMED_SIZES: &str = "sizes that depend on values are assumed, and which free blocks those of other sizes would get is a matter of chance";

/// Blocks are multiples of so many bytes.
const BLOCK: u64 = 512;
/// Segments are.
const SEGMENT: u64 = 2 << 20;

/// What a recorded training leaves open.
#[derive(Clone, Copy, Debug)]
struct OpenQuestions {
    /// cuDNN chooses its plans by trying them.
    is_cudnn_benchmarked: bool,
    /// A `GradScaler` decides by values if optimizers do their steps.
    may_skip_updates: bool,
    /// Sizes follow from values that were assumed.
    has_assumed_sizes: bool,
    /// Bytes of the largest request of uncertain size.
    largest_uncertain: u64,
}

/// The answer for one training on one GPU.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The run with everything as expected: under the cap, or without one where it runs out of memory under the cap.
    pub expected: Run,
    /// The bounds of the peak allocated bytes.
    pub allocated: Range,
    /// The bounds of the peak reserved bytes.
    pub reserved: Range,
    /// Everything that keeps the answer from being exact, each once.
    pub causes: Vec<Cause>,
    /// The highest peaks of the expected run; `None` where 64-bit addresses do not reach even for its build.
    pub peaks: Option<TopPeaks>,
    /// The CUDA context.
    pub context: ContextBytes,
    /// What the process takes at its peak, its expected CUDA context included.
    pub device_used: u64,
    /// Whether it fits; `None` where no capacity is known.
    pub fit: Option<Fit>,
}

impl Answer {
    /// `unlimited` are the same simulations without a cap, needed where one of `capped` runs out of memory.
    fn new(
        capped: Runs,
        unlimited: Option<Runs>,
        file_causes: &[Cause],
        OpenQuestions { is_cudnn_benchmarked, may_skip_updates, has_assumed_sizes, largest_uncertain }: OpenQuestions,
        device: &Device<'_>,
    ) -> Answer {
        let fit = Fit::of(device, &capped, unlimited.as_ref());
        let runs = match unlimited {
            Some(unlimited) => capped.completed_by(unlimited),
            None => capped,
        };
        let peak_allocated = |run: &Run| run.peak().map_or(0, |phase| phase.peak.allocated);
        let mut allocated = Range::of(&runs, peak_allocated, |later| later.allocated);
        let mut reserved = Range::of(&runs, |run| run.peak_reserved, |later| later.reserved);
        let libraries = runs.expected.libraries;
        allocated = allocated.widened(device.allocated_slack(libraries), &Cause::GpuNotMeasured);
        reserved = reserved.widened(device.reserved_slack(libraries), &Cause::GpuNotMeasured);
        let beyond = Slack::of(runs.beyond_orders(peak_allocated, BLOCK));
        allocated = allocated.over(&runs.unlikely_orders, peak_allocated).widened(beyond, &Cause::AddressOrder);
        if may_skip_updates {
            let (least_allocated, least_reserved) = runs.expected.peaks_before_updates();
            let cause = Cause::Training(SKIPPED_UPDATES.to_owned());
            let below = |low: u64, least: u64| Slack { below: low.saturating_sub(least), above: 0 };
            let (allocated_slack, reserved_slack) =
                (below(allocated.low(), least_allocated), below(reserved.low(), least_reserved));
            allocated = allocated.widened(allocated_slack, &cause);
            reserved = reserved.widened(reserved_slack, &cause);
        }
        if has_assumed_sizes {
            let accounts = runs.iter().filter_map(Run::peak).map(|phase| phase.peak.account);
            let tails = accounts.map(|account| certainty::of_unsplit_tails(&account)).max().unwrap_or(0);
            let slack = Slack { below: tails, above: tails };
            allocated = allocated.widened(slack, &Cause::Training(ASSUMED_SIZES.to_owned()));
        }
        let requested = [
            Cause::unmodelled(&runs.expected.missing),
            Cause::workspaces(&runs.expected.guessed, is_cudnn_benchmarked),
        ];
        let mut causes: Vec<Cause> = Vec::new();
        let spread = allocated.causes().chain(reserved.causes()).cloned();
        let all = requested.into_iter().flatten().chain(spread).chain(file_causes.iter().cloned());
        for cause in all.chain(device.unmeasured(&runs.expected)) {
            if !causes.contains(&cause) {
                causes.push(cause);
            }
        }
        reserved = reserved.over(&runs.unlikely_orders, |run| run.peak_reserved);
        let beyond = runs.beyond_orders(|run| run.peak_reserved, SEGMENT);
        match causes.iter().find(|cause| !cause.leaves_exact()) {
            Some(cause) => {
                let certainty = Certainty::of(&causes);
                allocated = allocated.widened(certainty.allocated_slack(), cause);
                let slack = certainty.reserved_slack(reserved.high(), largest_uncertain);
                reserved = reserved.widened(Slack::of(slack.max(beyond)), cause);
            }
            None => reserved = reserved.widened(Slack::of(beyond), &Cause::AddressOrder),
        }
        if is_cudnn_benchmarked {
            // Plans whose workspace the GPU has no memory for are not tried.
            let limit = device.gpu.capacity().high;
            (allocated, reserved) = (allocated.at_most(limit), reserved.at_most(limit));
        }
        let expected = runs.expected;
        Answer {
            allocated,
            reserved,
            causes,
            peaks: TopPeaks::of(&expected),
            context: device.context_bytes(expected.libraries),
            device_used: device.used(&expected),
            fit,
            expected,
        }
    }

    /// Whether both peaks of the reported steps are certain to the byte.
    pub fn is_exact(&self) -> bool {
        self.causes.iter().all(Cause::leaves_exact)
    }

    /// Whether a capacity is known and every simulation fits in it.
    pub fn fits_for_certain(&self) -> bool {
        self.fit.as_ref().is_some_and(|fit| fit.verdict == Verdict::Fits)
    }

    /// The peak allocated bytes of the expected run.
    pub fn peak_allocated(&self) -> u64 {
        self.peaks.map_or(0, |peaks| peaks.first.peak.allocated)
    }

    /// What is allocated at that peak, by category.
    pub fn breakdown(&self) -> Account {
        self.peaks.map_or_else(Account::default, |peaks| peaks.first.peak.account)
    }

    /// Operators without a memory rule.
    pub fn unmodelled(&self) -> &[Counted] {
        let found = self.causes.iter().find_map(|cause| match cause {
            Cause::UnmodelledOperators(operators) => Some(operators.as_slice()),
            _ => None,
        });
        found.unwrap_or_default()
    }

    /// Workspaces that are not certain.
    pub fn guessed(&self) -> &[Counted] {
        let found = self.causes.iter().find_map(|cause| match cause {
            Cause::GuessedWorkspaces(workspaces) | Cause::CudnnBenchmark(workspaces) => Some(workspaces.as_slice()),
            _ => None,
        });
        found.unwrap_or_default()
    }
}
