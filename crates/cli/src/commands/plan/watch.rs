//! Shows the progress of a search after one second; in a file or pipe, every 15 seconds. Ctrl-C stops the search, which then returns the best so far; a second
//! Ctrl-C ends the program.

use std::io::{self, IsTerminal, Write};
use std::process;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use vramfit_plan::Control;

use crate::failure::Failure;
use crate::interrupt::{ControlSignal, Interrupt};
use crate::platform::{error_columns, is_dumb};

/// Progress is shown after this time.
const PROGRESS_DELAY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// Where standard error is no terminal, a line is written this often.
const LINE_EVERY: Duration = Duration::from_secs(15);
/// The exit code of a program that Ctrl-C ended, as in shells.
const INTERRUPTED: i32 = 130;
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

/// Runs `work` on another thread and shows its progress.
pub fn watched<R: Send>(control: &Control, work: impl FnOnce() -> R + Send) -> Result<R, Failure> {
    let interrupt = Interrupt::install()?;
    thread::scope(|scope| {
        let (done, result) = mpsc::channel();
        scope.spawn(move || {
            // The receiver lives as long as this scope.
            let _ = done.send(work());
        });
        let begun = Instant::now();
        let mut line = Line::new();
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
            if begun.elapsed() > PROGRESS_DELAY {
                line.show(&progress(control, begun.elapsed()), begun.elapsed());
            }
        }
    })
}

fn progress(control: &Control, elapsed: Duration) -> String {
    let (simulated, seconds) = (control.simulated(), elapsed.as_secs());
    let hint = if control.is_stopped() { "finishing" } else { "Ctrl-C stops with the best so far" };
    format!("{simulated} candidates simulated, {seconds} s; {hint}")
}

/// A progress line on standard error that is overwritten. It is not padded, so a `^C` that the terminal echoes after it is
/// overwritten too. In a file or pipe, lines follow each other.
struct Line {
    is_overwritten: bool,
    /// When the next line is due where they are not overwritten.
    next: Duration,
}

impl Line {
    fn new() -> Line {
        Line { is_overwritten: io::stderr().is_terminal() && !is_dumb(), next: LINE_EVERY }
    }

    fn show(&mut self, text: &str, elapsed: Duration) {
        if !self.is_overwritten {
            if elapsed >= self.next {
                self.next += LINE_EVERY;
                let _ = writeln!(io::stderr(), "{text}");
            }
            return;
        }
        let spinner = SPINNER[elapsed.as_millis() as usize / 100 % SPINNER.len()];
        let text = format!("{spinner} {text}");
        let width = error_columns().unwrap_or(80);
        // Leave room for `^C`; a line that wraps cannot be overwritten.
        let text: String = text.chars().take(width.saturating_sub(3)).collect();
        self.write(&text);
    }

    fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_overwritten {
            // Failing to show progress is not an error.
            let _ = write!(io::stderr(), "\r{text}\x1b[K").and_then(|()| io::stderr().flush());
        }
    }
}
