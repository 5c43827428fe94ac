//! Gradient accumulation: micro-batches with the same effective batch.

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::PrintedLoop;
use crate::risk::Risk;
use crate::selective::batch_norms;
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
        if mixes_samples(bench, setup) { Risk::SmallerTraining } else { self.role().risk() }
    }

    fn conflicts(&self) -> &'static str {
        "batch norm uses each micro-batch's statistics; a loss that is not a mean over equal parts must be weighted by hand"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "(loss / n).backward() for n micro-batches, then optimizer.step()"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let batch = bench.batch_of(start).ok_or("the model was captured without a batch size to choose")?;
        if batch == 1 {
            return Err("the batch is one sample already".to_owned());
        }
        // Only divisors of the batch keep the effective batch.
        let setups: Vec<Setup> = (1..batch)
            .rev()
            .filter(|micro| batch % micro == 0)
            .filter_map(|micro| {
                let mut setup = bench.with_batch(start, micro)?;
                setup.training.accumulate =
                    start.training.accumulate.checked_mul(u32::try_from(batch / micro).ok()?)?;
                Some(setup)
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
        let count = batch_norms(&*bench.bind(setup)?);
        let batch = bench.batch_of(setup)?;
        (count > 0)
            .then(|| format!("{count} batch norms compute their statistics over a micro-batch of {batch} samples"))
    }

    fn write(&self, _bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        code.micro_batches = setup.training.accumulate;
    }
}

/// Whether a sample's gradient depends on the other samples of its forward pass, so that smaller passes train differently.
fn mixes_samples(bench: &Workbench<'_>, setup: &Setup) -> bool {
    bench.bind(setup).is_some_and(|bound| batch_norms(&bound) > 0)
}
