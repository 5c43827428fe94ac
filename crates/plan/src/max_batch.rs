//! The largest batch such that every batch up to it fits.
//!
//! What is reserved does not grow with the batch at every step: a smaller batch may need more. So each batch is
//! simulated, from 1 on, until one does not fit; nothing is bisected. Batches that the model was not exported for are passed
//! over.

use vramfit_training::parallel;

use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// How many batches a core tries before the next look at the results.
const ROUND: usize = 8;
/// No batch beyond is tried.
pub const LIMIT: i64 = 1 << 30;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxBatch {
    /// The largest batch such that every batch up to it fits; 0 where not even one sample does.
    pub batch: i64,
    /// Whether the next one does not fit, or the model was made for no more; false where the search was stopped, or all up to the limit fit.
    pub is_final: bool,
}

/// Tries batches from 1 up to `limit`. `None` where the model has no batch to choose.
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
            // A batch is asked for once: there is no use in keeping it.
            bench.fitting_once(&setup, control)
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
