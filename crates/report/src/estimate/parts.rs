//! Parts of an estimate: peaks, phases, bounds, what memory is for.

use serde::Serialize;
use vramfit_eager::memory::ADDED_LOSS;
use vramfit_training::answer::{Range, TopPeaks};
use vramfit_training::{Account, Phase, PhaseReport};

use super::locations::Locations;
use crate::names::{CategoryName, CauseName, PhaseName};

/// Where the program is at the peak.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PeakReport {
    /// The step, from 0.
    pub(super) step: Option<u32>,
    /// The phase.
    pub(super) phase: PhaseName,
    /// The dotted path of the module that runs.
    pub(super) module: Option<String>,
    /// The ATen operator that runs.
    pub(super) op: Option<String>,
}

/// The highest peak in another kind of phase than the first's.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SecondPeak {
    /// Its allocated bytes.
    pub(super) allocated: u64,
    /// The step, from 0.
    pub(super) step: Option<u32>,
    /// The phase.
    pub(super) phase: PhaseName,
    /// How much cutting the first peak saves at most.
    #[serde(skip)]
    pub(super) saving: u64,
}

/// Bytes by what they are for.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Breakdown {
    /// Weights and buffers.
    pub(super) parameters: u64,
    /// Gradients.
    pub(super) gradients: u64,
    /// The optimizer's state.
    pub(super) optimizer: u64,
    /// What the forward pass made and something still needs.
    pub(super) activations: u64,
    /// Inputs and targets.
    pub(super) inputs: u64,
    /// What the model returned.
    pub(super) outputs: u64,
    /// What an operator or the optimizer uses for a moment.
    pub(super) temporary: u64,
    /// Workspaces of cuBLAS and cuDNN.
    pub(super) workspace: u64,
    /// Buffers that ranks send and receive; absent where there is one GPU.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) communication: u64,
    /// What blocks are larger than what was requested of them.
    pub(super) rounding: u64,
}

/// A phase.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PhaseRow {
    /// The step, from 0; null while the model is built.
    pub(super) step: Option<u32>,
    /// The phase.
    pub(super) phase: PhaseName,
    /// Allocated bytes at its end.
    pub(super) allocated: u64,
    /// Peak allocated bytes within it.
    pub(super) peak: u64,
    /// Reserved bytes at its end.
    pub(super) reserved: u64,
    /// The micro-batch, from 0, for a forward or backward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) micro: Option<u32>,
}

/// Bounds of a number.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RangeReport {
    /// The lower bound.
    pub(super) low: u64,
    /// The upper bound.
    pub(super) high: u64,
    /// What makes them differ; absent where they do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(length(min = 1)))]
    pub(super) by: Vec<CauseName>,
}

impl From<&Range> for RangeReport {
    fn from(range: &Range) -> RangeReport {
        let mut by: Vec<CauseName> = Vec::new();
        for cause in range.causes().map(CauseName::from) {
            if !by.contains(&cause) {
                by.push(cause);
            }
        }
        RangeReport { low: range.low(), high: range.high(), by }
    }
}

impl RangeReport {
    /// What makes the bounds differ, in words; `None` where they do not.
    pub(super) fn causes(&self) -> Option<String> {
        let words: Vec<&str> = self.by.iter().map(|cause| cause.name()).collect();
        let (last, others) = words.split_last()?;
        Some(if others.is_empty() { (*last).to_owned() } else { format!("{} and {last}", others.join(", ")) })
    }
}

impl SecondPeak {
    pub(super) fn of(peaks: TopPeaks) -> Option<SecondPeak> {
        let second = peaks.second?;
        let allocated = second.peak.allocated;
        let saving = peaks.first.peak.allocated.saturating_sub(allocated);
        Some(SecondPeak { allocated, step: second.step, phase: second.phase.into(), saving })
    }
}

impl PeakReport {
    pub(super) fn of(phase: &PhaseReport, locations: &Locations<'_>) -> PeakReport {
        let step = phase.peak.origin;
        let is_forward_or_backward = phase.phase != Phase::Step;
        let operator = locations.operator(step).filter(|_| is_forward_or_backward);
        let has_module = operator.is_some() || step == ADDED_LOSS && is_forward_or_backward;
        PeakReport {
            step: phase.step,
            phase: phase.phase.into(),
            module: locations.module(step).filter(|_| has_module).map(str::to_owned),
            op: operator.map(str::to_owned),
        }
    }
}

impl From<&PhaseReport> for PhaseRow {
    fn from(phase: &PhaseReport) -> PhaseRow {
        PhaseRow {
            step: phase.step,
            phase: phase.phase.into(),
            allocated: phase.allocated,
            peak: phase.peak.allocated,
            reserved: phase.reserved,
            micro: phase.micro,
        }
    }
}

impl From<Account> for Breakdown {
    fn from(account: Account) -> Breakdown {
        let of = |category: CategoryName| account.requested[category.index()];
        Breakdown {
            parameters: of(CategoryName::Parameters),
            gradients: of(CategoryName::Gradients),
            optimizer: of(CategoryName::Optimizer),
            activations: of(CategoryName::Activations),
            inputs: of(CategoryName::Inputs),
            outputs: of(CategoryName::Outputs),
            temporary: of(CategoryName::Temporary),
            workspace: of(CategoryName::Workspace),
            communication: of(CategoryName::Communication),
            rounding: account.rounding,
        }
    }
}

impl Breakdown {
    /// Bytes by category, in the order of JSON; rounding aside.
    pub fn by_category(&self) -> [(CategoryName, u64); CategoryName::ALL.len()] {
        CategoryName::ALL.map(|category| {
            let bytes = match category {
                CategoryName::Parameters => self.parameters,
                CategoryName::Gradients => self.gradients,
                CategoryName::Optimizer => self.optimizer,
                CategoryName::Activations => self.activations,
                CategoryName::Inputs => self.inputs,
                CategoryName::Outputs => self.outputs,
                CategoryName::Temporary => self.temporary,
                CategoryName::Workspace => self.workspace,
                CategoryName::Communication => self.communication,
            };
            (category, bytes)
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

#[cfg(test)]
mod tests {
    use vramfit_training::answer::{Cause, Causes};

    use super::*;

    #[test]
    fn a_range_whose_bounds_differ_has_words_for_every_cause() {
        let causes = [
            Cause::UnmodelledOperators(Vec::new()),
            Cause::GuessedWorkspaces(Vec::new()),
            Cause::CudnnBenchmark(Vec::new()),
            Cause::PythonLifetimes,
            Cause::AddressOrder,
            Cause::LaterSteps { step: 3 },
            Cause::ModelFile("a size".to_owned()),
            Cause::TorchNotMeasured { version: "2.8".to_owned(), cudnn: None },
            Cause::RanksNotMeasured,
            Cause::GpuNotMeasured,
            Cause::CudnnNotMeasured,
            Cause::CudnnAsked,
            Cause::CudnnTabulated { version: "9.19.0".to_owned() },
        ];
        for cause in causes {
            let causes = Causes::of([cause]).expect("one cause");
            let words = RangeReport::from(&Range::Spread { low: 1, high: 2, causes }).causes();
            assert!(words.is_some_and(|words| !words.is_empty()));
        }
        assert_eq!(RangeReport::from(&Range::Single(1)).causes(), None);
    }
}
