//! What is taken for granted of an operator that is not in the table.

use super::facts::{Autocast, Effect, Facts, Keeps, Library, Samples, Time};
use crate::launch::Launch;

/// An operator that is not in the table. The answer names it, because its memory is not modelled and its time is assumed.
pub(super) const UNKNOWN: Facts = Facts::of_family(
    Library::Own,
    // As nearly all kernels do.
    Launch::LocalMemory,
    Time::ASSUMED,
    // The cheaper assumption for a checkpoint: nothing of it is computed again.
    Keeps::Nothing,
    // Autocast's lists are complete: what is not on them is left alone.
    Autocast::Unchanged,
    Samples::Unknown,
);

/// The same, where the operator's name says that it writes into its first argument.
pub(super) const UNKNOWN_IN_PLACE: Facts = Facts { effect: Effect::WritesFirst, ..UNKNOWN };
