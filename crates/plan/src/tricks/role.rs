//! How the search combines a trick with others.

use crate::risk::Risk;

/// What the search does with a trick. Several tricks may have the same role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Costs almost no time, and requests less memory or frees it earlier. The search adds it to every setup, in every
    /// combination with the other free tricks. A setup with the first alternative of every free trick needs the fewest
    /// live bytes of all these combinations: if that does not fit, none of them is simulated. What is kept from step to
    /// step must not depend on which setup the trick is added to.
    Free {
        /// Bytes per weight that the first alternative may need beyond another one, such as counters.
        bytes_per_weight: u64,
    },
    /// Changes how the allocator serves requests, not the requests. Combined as free tricks are.
    Allocator,
    /// Another layout of tensors in memory, which may need less or more for workspaces and copies. Combined as free tricks are.
    Layout,
    /// Computes the same step in smaller parts.
    SplitsBatch,
    /// Keeps fewer tensors for the backward pass and takes more time for it. The search tries each alternative with
    /// every split of the batch, precision and change of the training.
    SavedTensors {
        /// Whether it checkpoints modules: the search then also tries the subsets of [`crate::selective`].
        by_module: bool,
    },
    /// Another precision. The search takes one precision at a time; the first alternative of the first such trick is
    /// also combined with changes of the training.
    Precision {
        /// Whether the weights change their type too: with changes of the training it is a last resort.
        casts_weights: bool,
    },
    /// Another training that keeps less for each weight: gradients, optimizer state.
    WeightState,
    /// Another training with smaller samples; the last alternative is the smallest.
    SampleSize,
    /// Another training with fewer samples in a step.
    BatchSize,
    /// Not searched: only shown in the table of single tricks, mostly with findings.
    Shown(Risk),
}

impl Role {
    /// What a trick of this role risks on most models.
    pub fn risk(self) -> Risk {
        match self {
            Role::Free { .. } | Role::Allocator | Role::Layout | Role::SplitsBatch | Role::SavedTensors { .. } => {
                Risk::None
            }
            Role::Precision { casts_weights: false } => Risk::MixedPrecision,
            Role::Precision { casts_weights: true } => Risk::SmallerDtype,
            Role::WeightState => Risk::WeightState,
            Role::SampleSize | Role::BatchSize => Risk::SmallerTraining,
            Role::Shown(risk) => risk,
        }
    }
}
