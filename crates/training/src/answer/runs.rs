//! The simulations that one answer is made of.

use super::cause::Causes;
use crate::report::Run;

/// Every simulation of a training on one GPU.
#[derive(Clone, Debug)]
pub struct Runs {
    /// With everything as expected.
    pub expected: Run,
    /// The same requests under other orders of addresses.
    pub other_orders: Vec<Run>,
    /// The same under orders that are possible, but not likely.
    pub unlikely_orders: Vec<Run>,
    /// Other requests, where those expected are not certain.
    pub alternatives: Option<AlternativeRuns>,
}

/// Simulations with other requests than those expected.
#[derive(Clone, Debug)]
pub struct AlternativeRuns {
    /// The bounds, then mixtures of them, each under its orders of addresses.
    pub runs: Vec<Run>,
    /// Why the expected requests are not certain.
    pub causes: Causes,
}

impl Runs {
    /// The same, with each run that ran out of memory replaced by the one of `unlimited` that did not.
    pub(super) fn completed_by(self, unlimited: Runs) -> Runs {
        let choose = |capped: Run, unlimited: Run| match (&capped.failure, &unlimited.failure) {
            (Some(_), None) => unlimited,
            _ => capped,
        };
        let choose_all = |capped: Vec<Run>, unlimited: Vec<Run>| {
            capped.into_iter().zip(unlimited).map(|(capped, unlimited)| choose(capped, unlimited)).collect()
        };
        Runs {
            expected: choose(self.expected, unlimited.expected),
            other_orders: choose_all(self.other_orders, unlimited.other_orders),
            unlikely_orders: choose_all(self.unlikely_orders, unlimited.unlikely_orders),
            alternatives: self.alternatives.zip(unlimited.alternatives).map(|(capped, unlimited)| AlternativeRuns {
                runs: choose_all(capped.runs, unlimited.runs),
                causes: capped.causes,
            }),
        }
    }

    /// How far beyond the tried orders of addresses another order may lie, in multiples of `unit` bytes: of n numbers drawn at random, a
    /// further one may lie as far outside as the n are from each other on average.
    pub(super) fn beyond_orders(&self, number: impl Fn(&Run) -> u64, unit: u64) -> u64 {
        let orders = self.other_orders.iter().chain(&self.unlikely_orders);
        let numbers: Vec<u64> = std::iter::once(&self.expected).chain(orders).map(number).collect();
        let width = numbers.iter().max().zip(numbers.iter().min()).map_or(0, |(most, least)| most - least);
        width.div_ceil((numbers.len() as u64 - 1).max(1)).next_multiple_of(unit)
    }

    /// Whether a simulation runs out of memory.
    pub(super) fn has_failure(&self) -> bool {
        self.iter().any(|run| run.failure.is_some())
    }

    /// All that are likely, the expected one first: the verdict is about these.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        let alternatives = self.alternatives.iter().flat_map(|alternatives| &alternatives.runs);
        std::iter::once(&self.expected).chain(&self.other_orders).chain(alternatives)
    }
}
