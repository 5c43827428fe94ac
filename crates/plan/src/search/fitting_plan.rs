//! A combination of changes that fits.

use vramfit_training::Run;
use vramfit_training::answer::Fitting;

use super::by_role::Search;
use crate::effect::TrainingEffect;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::tricks::{Change, differences};
use crate::workbench::Peaks;
use crate::written::{Written, written};

/// A combination of changes that fits.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings.
    pub setup: Setup,
    /// The tricks, each on top of those before it.
    pub changes: Vec<Change>,
    /// The expected run under the cap.
    pub run: Run,
    /// Bytes counted against the capacity.
    pub taken: u64,
    /// Bytes of the capacity that every simulation leaves free.
    pub free: u64,
    /// Bytes on the device, including the CUDA context.
    pub device_used: u64,
    /// Seconds per step.
    pub seconds: f64,
    /// The time for the same work, over that of the start.
    pub slowdown: f64,
    /// The largest effect of its changes.
    pub effect: TrainingEffect,
    /// The largest risk of its changes.
    pub risk: Risk,
    /// Its code.
    pub written: Written,
}

impl Plan {
    /// Adds to a setup that fits everything that is reported about it. `peaks` are those of the start.
    pub(super) fn new(search: &Search<'_, '_>, peaks: Peaks, (setup, fitting): (Setup, Fitting)) -> Option<Plan> {
        let Fitting { run, free } = fitting;
        let Search { bench, tricks, start, control, .. } = *search;
        let mut before = start.clone();
        let mut reserved = peaks.reserved as i64;
        let mut changes = Vec::new();
        let differences = differences(bench, tricks, start, &setup);
        // Measured on a GPU of unlimited memory: memory that PyTorch releases at a cap is not saved by the trick.
        let peaks_after = control.map(&differences, |(_, after)| bench.peaks(after, control));
        for ((trick, after), now) in differences.into_iter().zip(peaks_after) {
            // A stopped search still reports the plans it has found.
            let now = now.flatten().or_else(|| bench.peaks(&after, control))?.reserved as i64;
            changes.push(Change {
                trick: trick.name(),
                risk: trick.risk(bench, &after),
                split_cause: trick.split_cause(bench, &after),
                before: trick.describe(bench, &before),
                after: trick.describe(bench, &after),
                warning: trick.warning(bench, &after),
                saving: reserved - now,
                slowdown: bench.slowdown(&before, &after)?,
            });
            (reserved, before) = (now, after);
        }
        Some(Plan {
            taken: bench.device.taken(&run),
            free,
            device_used: bench.device.used(&run),
            seconds: bench.seconds(&setup)?,
            slowdown: bench.slowdown(start, &setup)?,
            effect: changes.iter().map(|change| change.risk.effect()).max().unwrap_or(TrainingEffect::None),
            risk: changes.iter().map(|change| change.risk).max().unwrap_or(Risk::None),
            written: written(bench, tricks, &setup)?,
            changes,
            run,
            setup,
        })
    }
}
