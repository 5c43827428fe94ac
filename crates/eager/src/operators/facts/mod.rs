//! What is known of an operator: one field for each question that the simulation, the clock, the planner or a reader asks.
//!
//! There is no `Default`. A family of operators answers every question once, in a literal of all fields, and each entry
//! names where it differs; so a new field does not compile until every family has answered it.

mod autocast;
mod effect;
mod flops;
mod reach;
mod samples;
mod time;

use super::call::{Call, Outcome};
use crate::autograd::Context;

pub use crate::launch::Launch;
pub(super) use MemoryRule::Modelled;
pub use autocast::{Autocast, Evaluation, Promotion};
pub use effect::{Activation, Effect, HidesBase, Overwrite, ScriptCall};
pub use flops::{FlopFormula, Flops};
pub(super) use flops::{argument, elements};
pub use reach::{Greatest, Reads};
pub use samples::Samples;
pub use time::{Extent, Keeps, Time, Work};

/// A memory rule: does to memory what the operator does on CUDA, and returns its results.
pub type Rule = fn(&mut Context, &Call<'_>) -> Outcome;

/// What an operator allocates, saves and frees.
#[derive(Clone, Copy, Debug)]
pub enum MemoryRule {
    /// By this rule.
    Modelled(Rule),
    /// Nobody has written that down: the operator is named in the answer, which becomes a range.
    NotModelled,
}

/// The library that computes an operator, where using it costs memory of its own. A memory rule itself says where cuBLAS is
/// used, because that depends on the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// PyTorch's own kernels, or what the memory rule says.
    Own,
    /// cuDNN, forward and backward: each thread that runs it makes a handle.
    Cudnn,
}

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operator {
    /// The operators it is for, name and overload, such as `aten.relu.default`.
    pub names: &'static [&'static str],
    pub facts: Facts,
}

impl Operator {
    pub const fn new(names: &'static [&'static str], facts: Facts) -> Operator {
        Operator { names, facts }
    }
}

/// Everything that is known of an operator.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What it allocates, saves and frees.
    pub memory: MemoryRule,
    /// What it does instead where one of its arguments is sparse.
    pub sparse: MemoryRule,
    /// What launching its kernels does to the process's address space.
    pub launch: Launch,
    /// The library that computes it.
    pub library: Library,
    /// Its floating-point operations.
    pub flops: FlopFormula,
    /// Which measurement its time is taken from.
    pub time: Time,
    /// The measurement of the CPU's work for a call that launches nothing, because all its results are views.
    pub view_dispatch: &'static str,
    /// What autograd keeps of a call.
    pub keeps: Keeps,
    /// What autocast does with its arguments.
    pub autocast: Autocast,
    /// What it does to its arguments.
    pub effect: Effect,
    /// Whether it copies its first argument, also to the host.
    pub is_copy: bool,
    /// Whether it returns its argument or a copy by the argument's layout, which may be another at other sizes than the recorded ones.
    pub copies_by_layout: bool,
    /// Whether its result is a view of memory that has no other name.
    pub hides_base: HidesBase,
    /// Whether its result is a view that autograd tells apart from its base: a write into it gives only the view another history.
    pub leaves_base: bool,
    /// The module whose `inplace` attribute turns it into its in-place form.
    pub activation: Option<Activation>,
    /// Whether its result may be overwritten by an activation in place.
    pub overwrite: Overwrite,
    /// How the greatest number in its result follows from its arguments.
    pub greatest: Greatest,
    /// What it reads by index.
    pub reads: Reads,
    /// How the samples of a batch pass through it.
    pub samples: Samples,
    /// Which of its arguments give its result its type.
    pub promotion: Promotion,
    /// What `model.eval()` changes in a call.
    pub evaluation: Evaluation,
}

impl Facts {
    /// What a family of operators has in common. What differs between families has to be given; the rest holds for nearly all
    /// operators, and an entry says where it does not. An entry without a memory rule is named as not modelled.
    pub(super) const fn of_family(
        library: Library,
        launch: Launch,
        time: Time,
        keeps: Keeps,
        autocast: Autocast,
        samples: Samples,
    ) -> Facts {
        Facts {
            memory: MemoryRule::NotModelled,
            sparse: MemoryRule::NotModelled,
            launch,
            library,
            flops: FlopFormula::Zero,
            time,
            view_dispatch: "view",
            keeps,
            autocast,
            effect: Effect::ReadsOnly,
            is_copy: false,
            copies_by_layout: false,
            hides_base: HidesBase::Never,
            leaves_base: false,
            activation: None,
            overwrite: Overwrite::NotShown,
            greatest: Greatest::Unknown,
            reads: Reads::Nothing,
            samples,
            promotion: Promotion::First,
            evaluation: Evaluation::Unchanged,
        }
    }
}
