//! A smaller batch, without gradient accumulation to keep the effective batch.

use super::role::Role;
use super::round_numbers::round_numbers_below;
use super::trick::Trick;
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct SmallerBatch;

impl Trick for SmallerBatch {
    fn name(&self) -> &'static str {
        "smaller batch"
    }

    fn setting(&self) -> &'static str {
        "batch"
    }

    fn role(&self) -> Role {
        Role::BatchSize
    }

    fn conflicts(&self) -> &'static str {
        "a learning rate and schedule tuned for the larger batch"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "DataLoader(dataset, batch_size=…)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let batch = bench.batch_of(start).ok_or("the model was captured without a batch size to choose")?;
        let smaller = (1..i64::BITS).map(|halvings| batch >> halvings).take_while(|&batch| batch > 0);
        let setups: Vec<Setup> = smaller.filter_map(|batch| bench.with_batch(start, batch)).collect();
        if setups.is_empty() { Err("the batch is one sample already".to_owned()) } else { Ok(setups) }
    }

    fn round_steps(&self, bench: &Workbench<'_>, start: &Setup) -> Vec<Setup> {
        let batch = bench.batch_of(start).unwrap_or(0);
        round_numbers_below(batch).filter_map(|batch| bench.with_batch(start, batch)).collect()
    }

    fn adopt(&self, bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        if setup.training.accumulate == from.training.accumulate
            && let Some(batch) = bench.batch_of(from)
            && bench.batch_of(setup) != Some(batch)
            && let Some(changed) = bench.with_batch(setup, batch)
        {
            *setup = changed;
        }
    }

    fn describe(&self, bench: &Workbench<'_>, setup: &Setup) -> String {
        format!("batch {}", bench.batch_of(setup).unwrap_or(0))
    }
}
