//! Tensor parallelism: a captured model as one rank runs it.
//!
//! `parallelize_module` splits the weights of linear layers by columns or by rows, and what is computed from them is split too. This
//! module follows the split dimension from call to call, and gives every tensor the sizes that it has on one rank.

mod cut;
mod follow;
mod layers;

use thiserror::Error;
use vramfit_graph::bind::Bound;

pub use layers::{LayerSplit, split_layers, weights_of};

/// A model cannot be split.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SplitError {
    /// None of its linear layers has a name that is known.
    #[error("--parallel tp: found no linear layers of attention or MLP by their names, such as q_proj and o_proj")]
    NoLayers,
    /// Ranks would have parts of different sizes.
    #[error("--parallel tp: found {size} heads or columns in {tensor}, needed a multiple of the {world} GPUs")]
    Uneven {
        /// The tensor, for people.
        tensor: String,
        /// How many there are.
        size: i64,
        /// How many ranks there are.
        world: i64,
    },
    /// What an operator does with a tensor that is split is not known.
    #[error(
        "--parallel tp: {place}: `{operator}` meets a tensor that is split, and what a rank then computes is not known"
    )]
    NotFollowed {
        /// The operator.
        operator: String,
        /// The line of the model's code.
        place: String,
    },
}

/// Gives every tensor the sizes that it has on one of `world` ranks.
///
/// # Errors
/// The model has no layers that are split, or a tensor cannot be followed.
pub fn split(bound: &mut Bound<'_>, world: u32) -> Result<(), SplitError> {
    follow::split(bound, i64::from(world.max(1)))?;
    bound.alternatives.iter_mut().try_for_each(|alternative| follow::split(alternative, i64::from(world.max(1))))
}
