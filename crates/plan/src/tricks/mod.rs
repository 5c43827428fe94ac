//! The tricks, one file each: where a trick applies, what it changes, its effect on the training, its code.

mod accumulation;
mod allocator;
mod checkpoint;
mod evaluation;
mod half_precision;
pub mod in_place;
mod loss_item;
mod mixed_precision;
mod module_names;
mod optimizer;
mod optimizer_implementation;
mod release_outputs;
mod sizes;
mod slimmer;
mod smaller_batch;
mod smaller_dtype;
mod trick;
mod zero_grad;

pub(crate) use accumulation::Accumulation;
pub(crate) use allocator::AllocatorSettings;
pub(crate) use checkpoint::Checkpointing;
pub(crate) use mixed_precision::MixedPrecision;
pub(crate) use optimizer::OtherOptimizer;
pub(crate) use sizes::SmallerSizes;
pub(crate) use smaller_batch::SmallerBatch;
pub(crate) use smaller_dtype::SmallerDtype;

pub use trick::{Change, Finding, Trick};

use crate::effect::TrainingEffect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// All tricks in the order in which changes are listed, free ones first.
pub const TRICKS: [&dyn Trick; 15] = [
    &zero_grad::ZeroGradEarly,
    &release_outputs::ReleaseOutputs,
    &loss_item::LossItem,
    &in_place::InPlace,
    &optimizer_implementation::OptimizerImplementation,
    &AllocatorSettings,
    &Checkpointing,
    &Accumulation,
    &MixedPrecision,
    &SmallerDtype,
    &OtherOptimizer,
    &SmallerBatch,
    &SmallerSizes,
    &evaluation::Evaluation,
    &slimmer::SlimmerModel,
];

/// Tricks that cost almost no time and do not change results. Each requests less memory or frees it earlier, so all of
/// them together have the lowest peak of live bytes of all their combinations.
pub const FREE_TRICKS: [&dyn Trick; 4] = [
    &zero_grad::ZeroGradEarly,
    &release_outputs::ReleaseOutputs,
    &in_place::InPlace,
    &optimizer_implementation::OptimizerImplementation,
];

/// The tricks that turn `start` into `end`, each with the setup after it and all before it.
pub fn differences(bench: &Workbench<'_>, start: &Setup, end: &Setup) -> Vec<(&'static dyn Trick, Setup)> {
    let mut setup = start.clone();
    let mut found = Vec::new();
    for trick in TRICKS {
        let mut next = setup.clone();
        trick.adopt(bench, &mut next, end);
        if next != setup {
            setup = next;
            found.push((trick, setup.clone()));
        }
    }
    found
}

/// The largest effect of the tricks that turn `start` into `end`.
pub fn effect(bench: &Workbench<'_>, start: &Setup, end: &Setup) -> TrainingEffect {
    let effects = differences(bench, start, end).into_iter().map(|(trick, _)| trick.effect());
    effects.max().unwrap_or(TrainingEffect::None)
}
