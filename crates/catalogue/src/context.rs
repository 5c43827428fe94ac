//! What a process takes on a GPU outside PyTorch's allocator, where nobody has measured it: the reader of
//! `data/contexts.txt`, which holds published figures and a rule for GPUs without any.

use crate::compute::ComputeCapability;
use crate::rows::{Row, TableError, rows};

const BUILT_IN: &str = include_str!("../data/contexts.txt");
const MIB: u64 = 1 << 20;

/// Bytes of a process outside PyTorch's allocator; all three are equal where it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBytes {
    /// Lower bound.
    pub low: u64,
    /// The likely number.
    pub expected: u64,
    /// Upper bound.
    pub high: u64,
}

/// What an estimated context rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextBasis {
    /// Published figures of GPUs with this compute capability and this many multiprocessors.
    PublishedFigures {
        /// How many.
        count: u32,
    },
    /// The number of threads that the multiprocessors can hold, by a rule fitted to all published figures.
    Multiprocessors,
}

/// The context of a process that computes, with the libraries it loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstimatedContext {
    /// Its size.
    pub bytes: ContextBytes,
    /// What that rests on.
    pub basis: ContextBasis,
}

/// Estimates contexts.
#[derive(Clone, Debug)]
pub(crate) struct ContextTable {
    rule: ContextRule,
    published: Vec<PublishedContext>,
}

/// `fixed` bytes and `per_thread` for each resident thread; the bounds are shares of that.
#[derive(Clone, Copy, Debug)]
struct ContextRule {
    fixed: u64,
    per_thread: u64,
    low: f64,
    high: f64,
}

#[derive(Clone, Copy, Debug)]
struct PublishedContext {
    compute: ComputeCapability,
    multiprocessors: u32,
    context: EstimatedContext,
}

impl ContextTable {
    pub(crate) fn built_in() -> Result<ContextTable, TableError> {
        let (mut rule, mut published) = (None, Vec::new());
        for row in rows(BUILT_IN) {
            match row.fields.first() {
                Some(&"rule") => rule = Some(row.parsed(ContextRule::read)?),
                _ => published.push(row.parsed(PublishedContext::read)?),
            }
        }
        let rule = rule.ok_or_else(|| TableError { line: 0, problem: "found no rule, needed one".to_owned() })?;
        Ok(ContextTable { rule, published })
    }

    /// The context on a GPU with this compute capability and this many multiprocessors.
    pub(crate) fn estimate(&self, compute: ComputeCapability, multiprocessors: u32) -> EstimatedContext {
        let is_same = |row: &&PublishedContext| row.compute == compute && row.multiprocessors == multiprocessors;
        match self.published.iter().find(is_same) {
            Some(row) => row.context,
            None => self.rule.estimate(compute, multiprocessors),
        }
    }
}

impl ContextRule {
    fn read(row: &Row<'_>) -> Result<ContextRule, String> {
        let [fixed, per_thread, low, high] = row.numbers([1, 2, 3, 4])?;
        Ok(ContextRule { fixed: fixed as u64 * MIB, per_thread: per_thread as u64, low, high })
    }

    fn estimate(&self, compute: ComputeCapability, multiprocessors: u32) -> EstimatedContext {
        let threads = u64::from(multiprocessors) * u64::from(compute.threads_per_multiprocessor());
        let expected = self.fixed + self.per_thread * threads;
        let share = |share: f64| (expected as f64 * share) as u64;
        let bytes = ContextBytes { low: share(self.low), expected, high: share(self.high) };
        EstimatedContext { bytes, basis: ContextBasis::Multiprocessors }
    }
}

impl PublishedContext {
    fn read(row: &Row<'_>) -> Result<PublishedContext, String> {
        let compute = row.field(0)?.parse()?;
        let [multiprocessors, low, expected, high, count] = row.numbers([1, 2, 3, 4, 5])?;
        let mebibytes = |number: f64| number as u64 * MIB;
        let bytes = ContextBytes { low: mebibytes(low), expected: mebibytes(expected), high: mebibytes(high) };
        let basis = ContextBasis::PublishedFigures { count: count as u32 };
        let context = EstimatedContext { bytes, basis };
        Ok(PublishedContext { compute, multiprocessors: multiprocessors as u32, context })
    }
}
