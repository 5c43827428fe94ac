//! The tricks, one file each: where a trick applies, what it changes, how the search combines it, its code.

mod accumulation;
mod adapters;
mod allocator;
mod channels_last;
mod checkpoint;
mod evaluation;
mod fused_attention;
mod half_precision;
pub mod in_place;
mod kept_results;
mod loss_head;
mod loss_item;
mod mixed_precision;
mod module_names;
mod offload;
mod optimizer;
mod optimizer_implementation;
mod optimizer_state;
mod release_outputs;
mod role;
mod round_numbers;
mod sizes;
mod slimmer;
mod smaller_batch;
mod smaller_dtype;
mod spreading;
mod step_in_backward;
mod trick;
mod zero_grad;

pub use role::Role;
pub(crate) use spreading::policy;
pub use trick::{Change, Finding, Trick};

use thiserror::Error;

use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// All tricks in the order in which changes are listed: those that cost no time first, except the optimizer, whose
/// implementation depends on it.
pub const TRICKS: &[&dyn Trick] = &[
    &zero_grad::ZeroGradEarly,
    &release_outputs::ReleaseOutputs,
    &loss_item::LossItem,
    &in_place::InPlace,
    &fused_attention::FusedAttention,
    &adapters::TrainAdapters,
    &optimizer::OtherOptimizer,
    &optimizer_implementation::OptimizerImplementation,
    &spreading::Spreading,
    &optimizer_state::OptimizerState,
    &step_in_backward::StepInBackward,
    &channels_last::ChannelsLast,
    &allocator::AllocatorSettings,
    &checkpoint::Checkpointing,
    &kept_results::SelectiveCheckpoints,
    &loss_head::LossWithoutLogits,
    &offload::OffloadedActivations,
    &accumulation::Accumulation,
    &mixed_precision::MixedPrecision,
    &smaller_dtype::SmallerDtype,
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

/// The largest risk of the tricks that turn `start` into `end`.
pub fn risk(bench: &Workbench<'_>, tricks: &[&'static dyn Trick], start: &Setup, end: &Setup) -> Risk {
    let risks = differences(bench, tricks, start, end).into_iter().map(|(trick, after)| trick.risk(bench, &after));
    risks.max().unwrap_or(Risk::None)
}

/// The settings that a list such as `optimizer,seq` names.
///
/// # Errors
/// No trick of the search changes a setting of that name.
pub fn parse_kept(list: &str) -> Result<Vec<&'static str>, UnknownSetting> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| searched_settings().find(|known| *known == name).ok_or_else(|| UnknownSetting(name.to_owned())))
        .collect()
}

/// The settings that the search may change.
fn searched_settings() -> impl Iterator<Item = &'static str> {
    TRICKS.iter().filter(|trick| !matches!(trick.role(), Role::Shown(_))).map(|trick| trick.setting())
}

/// A setting that no trick changes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("found `{0}`, needed one or more of {list}", list = searched_settings().collect::<Vec<_>>().join(", "))]
pub struct UnknownSetting(String);
