//! Replays a recorded memory snapshot through the caching allocator.
//!
//! [`replay_recorded`] feeds a recording's requests to the allocator, with the recorded segment addresses, and compares
//! event by event. [`replay_with`] feeds them to an allocator under other settings: what would have happened instead.
//! [`first_divergence`] takes only the requests from the recording and predicts everything else.

mod convert;
mod faithful;
mod initial_layout;
mod mismatch;
mod predicted;
mod recorded_driver;
mod recorded_settings;
mod recorded_totals;
mod request;
mod totals;
mod what_if;

pub use faithful::{FaithfulReplay, RecordedReplay, replay_recorded};
pub use mismatch::{Mismatch, MismatchKind};
pub use predicted::{Divergence, first_divergence};
pub use recorded_settings::recorded_settings;
pub use request::BEFORE_FIRST_EVENT;
pub use totals::Totals;
pub use what_if::{Failure, WhatIf, replay_with};
