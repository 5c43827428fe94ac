//! Between which bounds a number is.

use super::cause::{Cause, Causes};
use super::device::Slack;
use super::runs::Runs;
use crate::report::{LaterPeaks, Run};

/// A number over all simulations of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Range {
    /// Every simulation gives the same.
    Single(u64),
    /// Simulations differ.
    Spread {
        /// The lower bound.
        low: u64,
        /// The upper bound.
        high: u64,
        /// What makes them differ.
        causes: Causes,
    },
}

impl Range {
    /// Of a peak of every run: `number` gives that of the reported steps, `lasting` that over all steps.
    pub(super) fn of(runs: &Runs, number: impl Fn(&Run) -> u64, lasting: impl Fn(&LaterPeaks) -> u64) -> Range {
        let span = |(low, high): (u64, u64), run: &Run| (low.min(number(run)), high.max(number(run)));
        let expected = number(&runs.expected);
        let by_address = runs.other_orders.iter().fold((expected, expected), span);
        let mut causes = Vec::new();
        let mut all = by_address;
        if let Some(alternatives) = &runs.alternatives {
            all = alternatives.runs.iter().fold(by_address, span);
            if all != by_address {
                causes.extend(alternatives.causes.iter().cloned());
            }
        }
        if by_address.0 != by_address.1 {
            causes.push(Cause::AddressOrder);
        }
        let grown = || runs.iter().filter_map(|run| run.later.filter(|later| lasting(later) > number(run)));
        if let Some(step) = grown().map(|later| later.step).min() {
            all.1 = grown().map(|later| lasting(&later)).fold(all.1, u64::max);
            causes.push(Cause::LaterSteps { step });
        }
        match Causes::of(causes) {
            Some(causes) => Range::Spread { low: all.0, high: all.1, causes },
            None => Range::Single(expected),
        }
    }

    /// The same over more runs of the expected requests, under other orders of addresses.
    pub(super) fn over(self, runs: &[Run], number: impl Fn(&Run) -> u64) -> Range {
        let (low, high) = (self.low(), self.high());
        let (least, most) =
            runs.iter().map(number).fold((low, high), |(least, most), number| (least.min(number), most.max(number)));
        self.widened(Slack { below: low - least, above: most - high }, &Cause::AddressOrder)
    }

    /// The same with an upper bound of at most `limit`, but never below the lower one.
    pub(super) fn at_most(self, limit: u64) -> Range {
        match self {
            Range::Spread { low, high, .. } if high > limit && limit <= low => Range::Single(low),
            Range::Spread { low, high, causes } => Range::Spread { low, high: high.min(limit), causes },
            single => single,
        }
    }

    /// The same with bounds that are further away, for a cause that no simulation covers.
    pub(super) fn widened(self, slack: Slack, cause: &Cause) -> Range {
        if slack == Slack::default() {
            return self;
        }
        let (low, high) = (self.low().saturating_sub(slack.below), self.high() + slack.above);
        let others: Vec<Cause> = self.causes().filter(|known| *known != cause).cloned().collect();
        match Causes::of(others.into_iter().chain([cause.clone()])) {
            Some(causes) => Range::Spread { low, high, causes },
            None => self,
        }
    }

    /// The lower bound.
    pub fn low(&self) -> u64 {
        match self {
            Range::Single(number) => *number,
            Range::Spread { low, .. } => *low,
        }
    }

    /// The upper bound.
    pub fn high(&self) -> u64 {
        match self {
            Range::Single(number) => *number,
            Range::Spread { high, .. } => *high,
        }
    }

    /// What makes the bounds differ; none where they do not.
    pub fn causes(&self) -> impl Iterator<Item = &Cause> {
        let causes = match self {
            Range::Single(_) => None,
            Range::Spread { causes, .. } => Some(causes.iter()),
        };
        causes.into_iter().flatten()
    }
}
