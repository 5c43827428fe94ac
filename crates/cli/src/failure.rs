//! Errors as the user sees them: what is wrong, then a hint after a blank line.

use std::io::Write;

use anstyle::{AnsiColor, Style};

/// Letters of a message that are shown at its beginning and at its end; what a file holds may be of any length.
const SHOWN: (usize, usize) = (700, 300);

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
        let _ = writeln!(stream, "{error}error:{error:#} {}", shortened(&self.message));
        if let Some(hint) = &self.hint {
            let _ = writeln!(stream, "\n{hint_style}hint:{hint_style:#} {hint}");
        }
    }
}

/// The message without its middle, where it is too long to be read.
fn shortened(message: &str) -> String {
    let count = message.chars().count();
    let (first, last) = SHOWN;
    if count <= 2 * (first + last) {
        return message.to_owned();
    }
    let begin: String = message.chars().take(first).collect();
    let end: String = message.chars().skip(count - last).collect();
    format!("{begin} … {} letters … {end}", count - first - last)
}

/// Says on standard error what was not as it should be, though the command goes on.
pub fn warn(text: &str) {
    let style = AnsiColor::Yellow.on_default().bold();
    // Nothing is left to tell where standard error is closed.
    let _ = writeln!(anstream::stderr().lock(), "{style}warning:{style:#} {text}");
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_message_of_any_length_is_shown_by_its_ends() {
        assert_eq!(shortened("model.toml: found `x`"), "model.toml: found `x`");
        let long = shortened(&format!("model.toml: found `{}`, needed a layer", "ä".repeat(100_000)));
        assert!(long.len() < 3_000 && long.starts_with("model.toml") && long.ends_with("needed a layer"), "{long}");
    }
}
