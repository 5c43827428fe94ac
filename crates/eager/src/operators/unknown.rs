//! What is taken for granted of an operator that is not in the table.

use super::facts::{
    Autocast, Effect, Evaluation, Facts, FlopFormula, Greatest, Keeps, Library, MemoryRule, Overwrite, Promotion,
    Reads, Time,
};
use crate::launch::Launch;

/// An operator that is not in the table. The answer names it, because its memory is not modelled and its time is assumed.
pub(super) const UNKNOWN: Facts = Facts {
    memory: MemoryRule::NotModelled,
    // As nearly all kernels do.
    launch: Launch::LocalMemory,
    library: Library::Own,
    flops: FlopFormula::Zero,
    time: Time::ASSUMED,
    view_dispatch: "view",
    // The cheaper assumption for a checkpoint: nothing of it is computed again.
    keeps: Keeps::Nothing,
    // Autocast's lists are complete: what is not on them is left alone.
    autocast: Autocast::Unchanged,
    effect: Effect::ReadsOnly,
    activation: None,
    overwrite: Overwrite::NotShown,
    greatest: Greatest::Unknown,
    reads: Reads::Nothing,
    promotion: Promotion::First,
    evaluation: Evaluation::Unchanged,
};

/// The same, where the operator's name says that it writes into its first argument.
pub(super) const UNKNOWN_IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..UNKNOWN };
