//! How convolutions choose their cuDNN plans.

use vramfit_cudnn::Scenario;

/// How PyTorch chooses among cuDNN's plans for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Plans {
    /// `torch.backends.cudnn.benchmark`: all plans are tried in a workspace for the largest, and the fastest is kept.
    pub are_benchmarked: bool,
    /// What is assumed about workspaces that were not recorded.
    pub assumption: Scenario,
}
