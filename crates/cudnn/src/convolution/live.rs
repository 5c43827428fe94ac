//! An installed cuDNN that is asked while a step is simulated.

use std::fmt;
use std::path::PathBuf;

use super::problem::ConvolutionProblem;

/// An installed cuDNN that can be asked about one GPU.
pub trait LiveAnswers: fmt::Debug + Send + Sync {
    /// The plan that PyTorch runs for a convolution; `None` where it does not answer.
    fn plan(&self, problem: &ConvolutionProblem) -> Option<LivePlan>;

    /// Bytes of the workspaces of all plans that PyTorch tries with `torch.backends.cudnn.benchmark`, each once, the largest first; none
    /// where it does not answer.
    fn workspaces(&self, problem: &ConvolutionProblem) -> Vec<u64>;

    /// The version of the library; `None` where it cannot be loaded.
    fn version(&self) -> Option<CudnnVersion>;

    /// How asking went so far.
    fn report(&self) -> LiveReport;
}

/// A plan that an installed cuDNN names for a GPU that was only described to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePlan {
    /// Bytes of its workspace.
    pub workspace: u64,
    /// Its engine; `None` where the library left engines out that use cuBLASLt, so that the GPU itself may take another one.
    pub engine: Option<LiveEngine>,
}

/// The engine of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveEngine {
    /// cuDNN's number.
    pub number: u64,
    /// Its settings: cuDNN's number of each, and the value.
    pub knobs: Vec<(u64, u64)>,
}

impl LivePlan {
    /// The plan that a list of numbers tells: workspace; then, if the engine is known, its number, and each setting with its value.
    pub fn from_numbers(numbers: &[u64]) -> Option<LivePlan> {
        let (&workspace, engine) = numbers.split_first()?;
        let engine = engine.split_first().map(|(&number, knobs)| LiveEngine {
            number,
            knobs: knobs.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        });
        Some(LivePlan { workspace, engine })
    }

    /// The list that [`LivePlan::from_numbers`] reads.
    pub fn numbers(&self) -> Vec<u64> {
        let engine = self.engine.iter();
        let engine = engine.flat_map(|engine| {
            std::iter::once(engine.number).chain(engine.knobs.iter().flat_map(|(knob, value)| [*knob, *value]))
        });
        std::iter::once(self.workspace).chain(engine).collect()
    }
}

impl LiveEngine {
    /// The value of a setting.
    pub fn knob(&self, knob: u64) -> Option<u64> {
        self.knobs.iter().find(|(number, _)| *number == knob).map(|(_, value)| *value)
    }
}

/// How asking an installed cuDNN went so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveReport {
    /// The library's file.
    pub library: PathBuf,
    /// The library's version, once it has been loaded.
    pub version: Option<CudnnVersion>,
    /// How many different convolutions it was asked about.
    pub asked: u32,
    /// How many of these it did not answer.
    pub unanswered: u32,
    /// Why it cannot be asked any more. What it answered before counts.
    pub failure: Option<String>,
}

/// A version as `cudnnGetVersion` returns it: 91900 for 9.19.0, before version 9 8907 for 8.9.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CudnnVersion(pub usize);

impl fmt::Display for CudnnVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0;
        let minors = if number < 10_000 { 10 } else { 100 };
        write!(formatter, "{}.{}.{}", number / 100 / minors, number / 100 % minors, number % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_with_or_without_its_engine() {
        assert_eq!(LivePlan::from_numbers(&[]), None);
        assert_eq!(LivePlan::from_numbers(&[7]), Some(LivePlan { workspace: 7, engine: None }));
        let engine = LiveEngine { number: 65, knobs: vec![(2, 4), (25, 0)] };
        let (plan, numbers) = (LivePlan { workspace: 7, engine: Some(engine) }, [7, 65, 2, 4, 25, 0]);
        assert_eq!(LivePlan::from_numbers(&numbers), Some(plan.clone()));
        assert_eq!(plan.numbers(), numbers);
    }

    #[test]
    fn versions_are_shown_as_releases_are_named() {
        let shown = [8907, 90_100, 91_002, 91_900].map(|number| CudnnVersion(number).to_string());
        assert_eq!(shown, ["8.9.7", "9.1.0", "9.10.2", "9.19.0"]);
    }
}
