//! Everything that a plan may change.

use vramfit_graph::dtype::Dtype;
use vramfit_graph::select::{Sizes, VariantFlags};
use vramfit_training::Loop;

use crate::alloc_conf::AllocConf;
use crate::forms::Adapters;

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
    /// Whether attention that the model writes itself is replaced.
    pub has_fused_attention: bool,
    /// Whether adapters are trained instead of the model.
    pub adapters: Adapters,
}

impl Setup {
    /// Without what only plans set.
    pub fn new(sizes: Sizes, variant: VariantFlags, training: Loop) -> Setup {
        Setup {
            sizes,
            variant,
            training,
            alloc_conf: AllocConf::default(),
            is_in_place: false,
            has_fused_attention: false,
            adapters: Adapters::AsGiven,
        }
    }

    /// The type that the whole model is cast to with `.to`.
    pub(crate) fn cast_to(&self) -> Option<Dtype> {
        self.training.parallel.cast_to(self.variant.dtype)
    }

    /// Whether both run the same operators on the same sizes, checkpoints included: their step times then differ by their
    /// loops only.
    pub(crate) fn has_same_graph(&self, other: &Setup) -> bool {
        let Setup { sizes, variant, training, alloc_conf: _, is_in_place, has_fused_attention, adapters } = self;
        *sizes == other.sizes
            && *variant == other.variant
            && training.checkpoint == other.training.checkpoint
            && training.kept_results == other.training.kept_results
            && training.loss_head == other.training.loss_head
            && training.offload == other.training.offload
            && training.has_channels_last == other.training.has_channels_last
            && *is_in_place == other.is_in_place
            && *has_fused_attention == other.has_fused_attention
            && *adapters == other.adapters
    }
}
