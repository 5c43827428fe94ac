//! A search that shows how far it is from one second on, and that Ctrl-C ends with the best so far.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use vramfit_plan::Control;

use crate::failure::Failure;
use crate::interrupt::{Asked, Interrupt};

/// From then on the progress is shown.
const QUIET: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Does the work on other threads, and watches it.
pub fn watched<R: Send>(control: &Control, work: impl FnOnce() -> R + Send) -> Result<R, Failure> {
    let interrupt = Interrupt::install()?;
    thread::scope(|scope| {
        let (done, result) = mpsc::channel();
        scope.spawn(move || {
            // Whoever waits is in this scope.
            let _ = done.send(work());
        });
        let begun = Instant::now();
        let mut bar: Option<ProgressBar> = None;
        loop {
            match result.recv_timeout(PAUSE) {
                Ok(result) => {
                    if let Some(bar) = bar {
                        bar.finish_and_clear();
                    }
                    return Ok(result);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the search ended without a result"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if interrupt.wait(Duration::ZERO) == Asked::End {
                control.stop();
            }
            if begun.elapsed() > QUIET {
                let bar = bar.get_or_insert_with(spinner);
                bar.set_position(control.simulated());
                bar.tick();
            }
        }
    })
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) =
        ProgressStyle::with_template("{spinner} {pos} candidates simulated, {elapsed}; Ctrl-C gives the best so far")
    {
        bar.set_style(style);
    }
    bar
}
