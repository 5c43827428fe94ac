//! How convolutions get their plans.

use vramfit_cudnn::Scenario;

/// How PyTorch chooses among cuDNN's plans for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plans {
    /// `torch.backends.cudnn.benchmark`: all plans are tried, in the largest of their workspaces, and the fastest is kept.
    pub are_benchmarked: bool,
    /// What is assumed of workspaces that nobody recorded.
    pub assumption: Scenario,
}
