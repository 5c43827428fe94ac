//! All that a plan may change.

use vramfit_graph::select::{Sizes, VariantFlags};
use vramfit_training::Loop;

use crate::alloc_conf::AllocConf;

/// A training as far as a plan may change it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Setup {
    /// Batch, sequence and the like.
    pub sizes: Sizes,
    /// Precision and mode.
    pub variant: VariantFlags,
    /// The loop.
    pub training: Loop,
    /// The allocator's settings.
    pub alloc_conf: AllocConf,
    /// Whether activation modules write into their input where they may.
    pub is_in_place: bool,
}
