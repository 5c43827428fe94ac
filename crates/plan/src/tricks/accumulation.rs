//! Gradient accumulation: micro-batches with the same effective batch.

use vramfit_training::script::MOST_MICRO_BATCHES;

use super::role::Role;
use super::trick::Trick;
use crate::batch_split::{SplitCause, split_cause};
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct Accumulation;

impl Trick for Accumulation {
    fn name(&self) -> &'static str {
        "gradient accumulation"
    }

    fn setting(&self) -> &'static str {
        "accumulate"
    }

    fn role(&self) -> Role {
        Role::SplitsBatch
    }

    fn risk(&self, bench: &Workbench<'_>, setup: &Setup) -> Risk {
        match split_cause(bench, setup) {
            Some(cause) if cause.changes_training() => Risk::SmallerTraining,
            _ => self.role().risk(),
        }
    }

    fn split_cause(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<SplitCause> {
        split_cause(bench, setup)
    }

    fn conflicts(&self) -> &'static str {
        "losses that compare the samples of a batch, weighted or ignored labels, batch norm's statistics"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "(loss / n).backward() for n micro-batches, then optimizer.step()"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let batch = bench.batch_of(start).ok_or("the model was captured without a batch size to choose")?;
        if batch == 1 {
            return Err("the batch is one sample already".to_owned());
        }
        if start.training.steps_in_backward {
            return Err("weights are updated in each backward pass".to_owned());
        }
        // Only divisors of the batch keep the effective batch, and only so many micro-batches can be asked for.
        let setups: Vec<Setup> = divisors_below(batch)
            .into_iter()
            .filter_map(|micro| {
                let mut setup = bench.with_batch(start, micro)?;
                let accumulate = start.training.accumulate.checked_mul(u32::try_from(batch / micro).ok()?)?;
                setup.training.accumulate = accumulate;
                (accumulate <= MOST_MICRO_BATCHES).then_some(setup)
            })
            .collect();
        if setups.is_empty() { Err("the model was not captured for smaller batches".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        if setup.training.accumulate != from.training.accumulate
            && let Some(batch) = bench.batch_of(from)
            && let Some(changed) = bench.with_batch(setup, batch)
        {
            *setup = changed;
            setup.training.accumulate = from.training.accumulate;
        }
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        let batch = bench.batch_of(setup).unwrap_or(0);
        match setup.training.accumulate {
            1 => format!("one batch of {batch}"),
            count => format!("{count} micro-batches of {batch}"),
        }
    }

    fn warning(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        split_cause(bench, setup).map(|cause| cause.words())
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        code.micro_batches = setup.training.accumulate;
    }

    fn fill(&self, _bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        parts.adds_losses = setup.training.adds_losses;
    }
}

/// The divisors of a number except itself, the largest first.
fn divisors_below(number: i64) -> Vec<i64> {
    let small: Vec<i64> = (1..=number.isqrt()).filter(|divisor| number % divisor == 0).collect();
    let large = small.iter().map(|divisor| number / divisor).filter(|&divisor| divisor < number);
    let mut all: Vec<i64> = large.chain(small.iter().rev().copied()).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::divisors_below;

    #[test]
    fn divisors_are_found_from_the_largest_also_of_huge_numbers() {
        assert_eq!(divisors_below(36), [18, 12, 9, 6, 4, 3, 2, 1]);
        assert_eq!(divisors_below(7), [1]);
        assert_eq!(divisors_below(2), [1]);
        for number in 2..500 {
            assert_eq!(divisors_below(number), (1..number).rev().filter(|part| number % part == 0).collect::<Vec<_>>());
        }
        assert_eq!(divisors_below(1 << 40).len(), 40);
    }
}
