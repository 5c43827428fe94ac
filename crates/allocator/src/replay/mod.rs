//! Replaying recordings.
//!
//! [`replay_recorded`] feeds a recording's own requests to the allocator, with the recording's own segment addresses,
//! and compares event by event. [`replay_with`] and [`replay_under`] feed them to an allocator under other
//! settings: what would have happened instead.

mod compare;
mod predicted;
mod recorded;
mod recorded_driver;
mod recorded_settings;
mod restore;
mod what_if;

pub use compare::{Mismatch, MismatchKind};
pub use predicted::{Stray, first_stray};
pub use recorded::{FaithfulReplay, RecordedReplay, replay_recorded};
pub use recorded_settings::recorded_settings;
pub use what_if::{Failure, WhatIf, replay_under, replay_with};

/// The numbers that sum up a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The most bytes the program held at once, whole blocks counted.
    pub peak_allocated: u64,
    /// The most bytes reserved at once.
    pub peak_reserved: u64,
    /// Segments at the end.
    pub segments: u64,
}
