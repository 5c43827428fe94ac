//! Everything that a plan may change.

use vramfit_graph::select::{Sizes, VariantFlags};
use vramfit_training::Loop;

use crate::alloc_conf::AllocConf;

/// The settings of a training that a plan may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// Batch, sequence length and other sizes.
    pub sizes: Sizes,
    /// Precision and mode.
    pub variant: VariantFlags,
    /// Optimizer, micro-batches, checkpoints and other loop settings.
    pub training: Loop,
    /// Allocator settings.
    pub alloc_conf: AllocConf,
    /// Whether activation modules write into their input where that is legal.
    pub is_in_place: bool,
}
