//! Reads a snapshot, with a progress bar if it takes long, or simulates one.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use vramfit_trace::read::read_file;
use vramfit_trace::snapshot::Snapshot;

use crate::arguments::SnapshotFile;
use crate::failure::Failure;

/// The progress bar appears after this time.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// Reads the snapshot at `path`, or simulates the recording of a script there.
pub fn read(path: &Path) -> Result<Snapshot, Failure> {
    let begun = Instant::now();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(
        ProgressStyle::with_template("reading {bar:40} {bytes}/{total_bytes} {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut is_shown = false;
    let result = read_file(path, &mut |done, total| {
        if !is_shown && begun.elapsed() > BAR_DELAY {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            is_shown = true;
        }
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let failure = match result {
        Ok(snapshot) => return Ok(snapshot),
        Err(error) => {
            let hint = error.hint();
            Failure::at(path.display(), error).with_hint(hint)
        }
    };
    #[cfg(feature = "simulate")]
    if let Some(snapshot) = crate::recorded_script::simulated_file(path)? {
        return Ok(snapshot);
    }
    Err(failure)
}

/// The index of the GPU that `--device` chooses, or of the first one used.
pub fn choose_device(snapshot: &Snapshot, options: &SnapshotFile) -> Result<usize, Failure> {
    let used = |number: usize| {
        let device = &snapshot.devices[number];
        !device.events.is_empty() || !device.segments.is_empty()
    };
    let all: Vec<usize> = (0..snapshot.devices.len()).filter(|&number| used(number)).collect();
    let name = options.path.display();
    match (options.device, all.as_slice()) {
        (Some(number), _) if all.contains(&number) => Ok(number),
        (Some(number), _) => {
            Err(Failure::new(format!("{name}: found no GPU {number}, needed one of those recorded: {all:?}")))
        }
        (None, [first, others @ ..]) => {
            if !others.is_empty() {
                anstream::eprintln!(
                    "note: the recording has GPUs {all:?}; showing GPU {first} (--device chooses another)"
                );
            }
            Ok(*first)
        }
        (None, []) => Err(Failure::new(format!("{name}: found neither events nor segments, needed a recorded GPU"))
            .with_hint(Some("call torch.cuda.memory._record_memory_history() before the run"))),
    }
}
