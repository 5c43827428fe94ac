//! Prints errors and warnings.

use std::io::Write;

use anstyle::AnsiColor;

pub use vramfit_report::failure::Failure;

/// Prints a failure on standard error.
pub fn print(failure: &Failure) {
    // If standard error is closed, there is nowhere to report it.
    let _ = anstream::stderr().lock().write_all(failure.text().as_bytes());
}

/// Prints a warning on standard error; the command continues.
pub fn warn(text: &str) {
    let style = AnsiColor::Yellow.on_default().bold();
    // If standard error is closed, there is nowhere to report it.
    let _ = writeln!(anstream::stderr().lock(), "{style}warning:{style:#} {text}");
}
