//! The tricks, one file each: where a trick applies, what it changes, how the search combines it, its code.

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
mod role;
mod sizes;
mod slimmer;
mod smaller_batch;
mod smaller_dtype;
mod trick;
mod zero_grad;

pub use role::Role;
pub use trick::{Change, Finding, Trick};

use crate::effect::TrainingEffect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// All tricks in the order in which changes are listed, free ones first.
pub const TRICKS: &[&dyn Trick] = &[
    &zero_grad::ZeroGradEarly,
    &release_outputs::ReleaseOutputs,
    &loss_item::LossItem,
    &in_place::InPlace,
    &optimizer_implementation::OptimizerImplementation,
    &allocator::AllocatorSettings,
    &checkpoint::Checkpointing,
    &accumulation::Accumulation,
    &mixed_precision::MixedPrecision,
    &smaller_dtype::SmallerDtype,
    &optimizer::OtherOptimizer,
    &smaller_batch::SmallerBatch,
    &sizes::SmallerSizes,
    &evaluation::Evaluation,
    &slimmer::SlimmerModel,
];

/// The tricks that turn `start` into `end`, each with the setup after it and all before it.
pub fn differences(
    bench: &Workbench<'_>,
    tricks: &[&'static dyn Trick],
    start: &Setup,
    end: &Setup,
) -> Vec<(&'static dyn Trick, Setup)> {
    let mut setup = start.clone();
    let mut found = Vec::new();
    for &trick in tricks {
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
pub fn effect(bench: &Workbench<'_>, tricks: &[&'static dyn Trick], start: &Setup, end: &Setup) -> TrainingEffect {
    let effects = differences(bench, tricks, start, end).into_iter().map(|(trick, after)| trick.effect(bench, &after));
    effects.max().unwrap_or(TrainingEffect::None)
}
