//! All that a plan may change.

use vramfit_graph::select::{Sizes, VariantFlags};
use vramfit_training::Loop;

/// A training as far as a plan may change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// Batch, sequence and the like.
    pub sizes: Sizes,
    /// Precision and mode.
    pub variant: VariantFlags,
    /// The loop.
    pub training: Loop,
    /// The allocator's settings, in PyTorch's syntax.
    pub alloc_conf: String,
    /// Whether activation modules write into their input where they may.
    pub is_in_place: bool,
}
