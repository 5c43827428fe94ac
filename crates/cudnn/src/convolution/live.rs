//! An installed cuDNN that is asked while a step is simulated.

use std::fmt;
use std::path::PathBuf;

use super::problem::ConvolutionProblem;

/// An installed cuDNN that can be asked about one GPU.
pub trait LiveAnswers: fmt::Debug + Send + Sync {
    /// Bytes of the workspace of a convolution; `None` where it does not answer.
    fn workspace(&self, problem: &ConvolutionProblem) -> Option<u64>;

    /// Bytes of the workspaces of all plans that PyTorch tries with `torch.backends.cudnn.benchmark`, each once, the largest first; none
    /// where it does not answer.
    fn workspaces(&self, problem: &ConvolutionProblem) -> Vec<u64>;

    /// The version of the library; `None` where it cannot be loaded.
    fn version(&self) -> Option<CudnnVersion>;

    /// How asking went so far.
    fn report(&self) -> LiveReport;
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
    fn versions_are_shown_as_releases_are_named() {
        let shown = [8907, 90_100, 91_002, 91_900].map(|number| CudnnVersion(number).to_string());
        assert_eq!(shown, ["8.9.7", "9.1.0", "9.10.2", "9.19.0"]);
    }
}
