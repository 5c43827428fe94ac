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
    /// All of them, the expected one first.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        let alternatives = self.alternatives.iter().flat_map(|alternatives| &alternatives.runs);
        std::iter::once(&self.expected).chain(&self.other_orders).chain(alternatives)
    }
}
