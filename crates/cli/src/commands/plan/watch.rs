//! A search that shows how far it is from one second on, and that Ctrl-C ends with the best so far; a second Ctrl-C ends it
//! without.

use std::io::{self, IsTerminal, Write};
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use vramfit_plan::Control;

use crate::failure::Failure;
use crate::interrupt::{ControlSignal, Interrupt};
use crate::platform::{error_columns, is_dumb};

/// From then on the progress is shown.
const QUIET: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// What shells call a program that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

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
        let line = Line::new();
        loop {
            match result.recv_timeout(PAUSE) {
                Ok(result) => {
                    line.clear();
                    return Ok(result);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new("the search ended without a result"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if interrupt.wait(Duration::ZERO) == Some(ControlSignal::End) {
                if control.is_stopped() {
                    line.clear();
                    process::exit(INTERRUPTED);
                }
                control.stop();
            }
            if begun.elapsed() > QUIET {
                line.show(&progress(control, begun.elapsed()));
            }
        }
    })
}

fn progress(control: &Control, elapsed: Duration) -> String {
    let spinner = SPINNER[elapsed.as_millis() as usize / 100 % SPINNER.len()];
    let (simulated, seconds) = (control.simulated(), elapsed.as_secs());
    let hint = if control.is_stopped() { "finishing what is begun" } else { "Ctrl-C gives the best so far" };
    format!("{spinner} {simulated} candidates simulated, {seconds} s; {hint}")
}

/// One line of a terminal on standard error that is written over. It ends where its text does, not at the edge, so that
/// a `^C` that the terminal writes after it goes with it.
struct Line {
    is_shown: bool,
}

impl Line {
    fn new() -> Line {
        Line { is_shown: io::stderr().is_terminal() && !is_dumb() }
    }

    fn show(&self, text: &str) {
        let width = error_columns().unwrap_or(80);
        // Room for two letters more; a line that wraps could not be written over.
        let text: String = text.chars().take(width.saturating_sub(3)).collect();
        self.write(&text);
    }

    fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            // Progress that cannot be shown is no reason to fail.
            let _ = write!(io::stderr(), "\r{text}\x1b[K").and_then(|()| io::stderr().flush());
        }
    }
}
