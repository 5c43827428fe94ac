//! The largest batch such that every batch up to it fits.
//!
//! Reserved memory is not monotonic in the batch: a smaller batch may need more. So there is no bisection; every batch
//! from 1 on is simulated until one does not fit. Batches that an exported model does not support are skipped.

use vramfit_training::parallel;

use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// Batches per core that are tried at once.
const ROUND: usize = 8;
/// The largest batch that is tried, so that the search ends within seconds for models of a few neurons, too.
pub const LIMIT: i64 = 1 << 16;

/// The result of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxBatch {
    /// The largest batch such that every batch up to it fits; 0 if not even one sample does.
    pub batch: i64,
    /// Whether the next batch does not fit or is not supported. False if the search was stopped or reached its limit.
    pub is_final: bool,
}

/// Tries batches from 1 up to `limit`. `None` if the model has no batch size.
pub fn max_batch(bench: &Workbench<'_>, setup: &Setup, limit: i64, control: &Control) -> Option<MaxBatch> {
    bench.batch_of(setup)?;
    let mut batch = 0;
    let round = ROUND * parallel::cores();
    while batch < limit {
        let mut next = bench.batches_after(setup, batch, round);
        if next.is_empty() {
            return Some(MaxBatch { batch, is_final: true });
        }
        next.retain(|next| *next <= limit);
        if next.is_empty() {
            break;
        }
        let fits = control.map(&next, |&batch| {
            let setup = bench.with_batch(setup, batch)?;
            // No batch is tried twice.
            bench.fits_uncached(&setup, control)
        });
        for (fit, next) in fits.into_iter().zip(next) {
            match fit {
                Some(Some(true)) => batch = next,
                Some(_) => return Some(MaxBatch { batch, is_final: true }),
                None => return Some(MaxBatch { batch, is_final: false }),
            }
        }
    }
    Some(MaxBatch { batch, is_final: false })
}
