//! Errors as the user sees them: what is wrong, then a hint after a blank line.

use std::io::Write;

use anstyle::{AnsiColor, Style};

/// Bad usage or bad input; the command exits with 2.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<String>>) -> Failure {
        self.hint = hint.map(Into::into);
        self
    }

    /// Prints it on standard error.
    pub fn print(&self) {
        let error = AnsiColor::Red.on_default().bold();
        let hint_style = Style::new().bold();
        let mut stream = anstream::stderr().lock();
        // Nothing is left to tell where standard error is closed.
        let _ = writeln!(stream, "{error}error:{error:#} {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(stream, "\n{hint_style}hint:{hint_style:#} {hint}");
        }
    }
}

/// Says on standard error what was not as it should be, though the command goes on.
pub fn warn(text: &str) {
    let style = AnsiColor::Yellow.on_default().bold();
    // Nothing is left to tell where standard error is closed.
    let _ = writeln!(anstream::stderr().lock(), "{style}warning:{style:#} {text}");
}
