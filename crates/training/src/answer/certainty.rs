//! How far a peak may be from all simulations where their requests are not certain. The verdict does not count this: PyTorch frees what
//! it has cached before it runs out of memory, so that a peak near the capacity says little.

use super::cause::Cause;
use super::device::Slack;
use crate::report::Account;

/// Whether the simulated requests are the ones that will be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// They are; only addresses may differ.
    Requests,
    /// They may differ in ways that no simulation covers: one size more or less changes which free blocks are left.
    Nothing,
}

/// A block of the large pool keeps up to 1 MiB that it does not need; one block more or less of them at each end.
const UNSPLIT_TAILS: u64 = 2 << 20;
/// A segment of the small pool.
const SMALL_SEGMENT: u64 = 2 << 20;
/// A request of at least so many bytes gets a segment of its own size.
const OWN_SEGMENT: u64 = 10 << 20;
/// Of the peak of reserved bytes. Chosen on the first list of `docs/sweep-accuracy.md`, which says how many of the second are inside.
const RESERVED_SHARE: u64 = 80;
const MOST_RESERVED: u64 = 8 << 20;

impl Certainty {
    /// Of an answer that is not exact for these causes.
    pub(super) fn of(causes: &[Cause]) -> Certainty {
        let is_by_address = |cause: &Cause| *cause == Cause::AddressOrder || cause.leaves_exact();
        if causes.iter().all(is_by_address) { Certainty::Requests } else { Certainty::Nothing }
    }

    /// What the peak of allocated bytes may differ by.
    pub(super) fn allocated_slack(self) -> Slack {
        match self {
            Certainty::Requests => Slack::default(),
            Certainty::Nothing => Slack { below: UNSPLIT_TAILS, above: UNSPLIT_TAILS },
        }
    }

    /// What this peak of reserved bytes may differ by, where the largest request of uncertain size has so many bytes: whether it finds
    /// a free block or needs a segment of its own depends on every size before it.
    pub(super) fn reserved_slack(self, reserved: u64, largest_uncertain: u64) -> u64 {
        let share = (reserved / RESERVED_SHARE).next_multiple_of(SMALL_SEGMENT).clamp(SMALL_SEGMENT, MOST_RESERVED);
        match self {
            Certainty::Requests => SMALL_SEGMENT,
            Certainty::Nothing if largest_uncertain < OWN_SEGMENT => share,
            Certainty::Nothing => share.max(largest_uncertain.next_multiple_of(SMALL_SEGMENT)),
        }
    }
}

/// How many standard deviations of the sum of unsplit tails are left room for: a normal sum is within three in 369 of 370 cases.
const DEVIATIONS: f64 = 3.0;

/// What the unsplit tails at a peak may sum up to more or less, where the sizes of blocks are not certain: which block gets a tail, and
/// of which length, is then a matter of chance, and the sum of independent tails has the sum of their squares as its variance.
pub(super) fn of_unsplit_tails(account: &Account) -> u64 {
    (DEVIATIONS * 512.0 * (account.squared_rounding as f64).sqrt()) as u64
}
