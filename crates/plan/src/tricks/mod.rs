//! The tricks, one file each: where a trick applies, what it changes, what it does to the training, how it is written.

mod accumulation;
mod allocator;
mod checkpoint;
mod evaluation;
mod half;
pub mod in_place;
mod loss_item;
mod mixed_precision;
mod optimizer;
mod optimizer_implementation;
mod outputs;
mod sizes;
mod slimmer;
mod smaller_batch;
mod smaller_dtype;
mod zero_grad;

pub(crate) use accumulation::Accumulation;
pub(crate) use allocator::AllocatorSettings;
pub(crate) use checkpoint::Checkpointing;
pub(crate) use mixed_precision::MixedPrecision;
pub(crate) use optimizer::OtherOptimizer;
pub(crate) use sizes::SmallerSizes;
pub(crate) use smaller_batch::SmallerBatch;
pub(crate) use smaller_dtype::SmallerDtype;

use crate::control::Control;
use crate::effect::Effect;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// A trick.
pub trait Trick: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// What it does to the training.
    fn effect(&self) -> Effect;

    /// What it does not go together with, in words; empty where nothing.
    fn conflicts(&self) -> &'static str {
        ""
    }

    /// How it is written in PyTorch, in a line or two.
    fn written(&self) -> &'static str;

    /// The other setups it knows, or why there are none.
    ///
    /// # Errors
    /// Says why it does not apply.
    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String>;

    /// What it knows to tell beside that, with the bytes it is about.
    fn findings(&self, _bench: &Workbench<'_>, _start: &Setup, _control: &Control) -> Vec<Finding> {
        Vec::new()
    }

    /// Takes over from another setup what this trick is about.
    fn adopt(&self, _bench: &Workbench<'_>, _setup: &mut Setup, _from: &Setup) {}

    /// What this trick is about in a setup, in words.
    fn state(&self, _bench: &Workbench<'_>, _setup: &Setup) -> String {
        String::new()
    }

    /// What to know when a setup has it.
    fn warning(&self, _bench: &Workbench<'_>, _setup: &Setup) -> Option<String> {
        None
    }
}

/// Something a trick tells beside other setups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub what: String,
    /// The bytes it is about: saved where positive.
    pub bytes: Option<i64>,
}

/// One difference between two setups.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The trick's name.
    pub trick: &'static str,
    /// What it does to the training.
    pub effect: Effect,
    /// As it was.
    pub before: String,
    /// As it is.
    pub after: String,
    /// What to know of it.
    pub warning: Option<String>,
    /// Bytes that are no longer reserved at the peak, on top of the changes before it.
    pub saving: i64,
    /// The time for the same work, after it by before it.
    pub slowdown: f64,
}

/// All of them, in the order in which changes are listed: the free ones first.
pub const TRICKS: [&dyn Trick; 15] = [
    &zero_grad::ZeroGradEarly,
    &outputs::LettingGo,
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

/// Tricks that cost no time worth naming and change nothing: each requests less or frees earlier, so that no combination of
/// them holds less at once than all of them together.
pub const FREEING_EARLIER: [&dyn Trick; 4] = [
    &zero_grad::ZeroGradEarly,
    &outputs::LettingGo,
    &in_place::InPlace,
    &optimizer_implementation::OptimizerImplementation,
];

/// The tricks in which two setups differ, applied one after another; each comes with the setup that has it and all
/// before it.
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

/// The effect of all differences together.
pub fn effect(bench: &Workbench<'_>, start: &Setup, end: &Setup) -> Effect {
    let effects = differences(bench, start, end).into_iter().map(|(trick, _)| trick.effect());
    effects.max().unwrap_or(Effect::None)
}
