//! Errors as users see them: the message, a blank line, a hint.

use std::error::Error;
use std::fmt;

use anstyle::{AnsiColor, Style};

/// Characters shown of the beginning and the end of a long message, which may quote a file.
const SHOWN: (usize, usize) = (700, 300);

/// Bad usage or bad input; the command exits with 2.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), hint: None, source: None }
    }

    /// An error with its subject: a file, a flag, a model.
    pub fn at(subject: impl fmt::Display, error: impl Error + Send + Sync + 'static) -> Failure {
        Failure { message: format!("{subject}: {error}"), hint: None, source: Some(Box::new(error)) }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: Option<impl Into<String>>) -> Failure {
        self.hint = hint.map(Into::into);
        self
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// As it is shown, in colour.
    pub fn text(&self) -> String {
        let error = AnsiColor::Red.on_default().bold();
        let hint_style = Style::new().bold();
        let message = format!("{error}error:{error:#} {}\n", shortened(&self.message));
        match &self.hint {
            Some(hint) => format!("{message}\n{hint_style}hint:{hint_style:#} {hint}\n"),
            None => message,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// Conversions from errors that name their subject themselves.
macro_rules! from_errors {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure { message: error.to_string(), hint: None, source: Some(Box::new(error)) }
            }
        }
    )*};
}

from_errors!(vramfit_allocator::SettingsError);
#[cfg(feature = "simulate")]
from_errors!(vramfit_eager::forward::UnknownModule);

/// The message without its middle if it is too long.
fn shortened(message: &str) -> String {
    let count = message.chars().count();
    let (first, last) = SHOWN;
    if count <= 2 * (first + last) {
        return message.to_owned();
    }
    let begin: String = message.chars().take(first).collect();
    let end: String = message.chars().skip(count - last).collect();
    format!("{begin} … {} characters … {end}", count - first - last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_shortened_to_its_beginning_and_end() {
        assert_eq!(shortened("model.toml: found `x`"), "model.toml: found `x`");
        let long = shortened(&format!("model.toml: found `{}`, needed a layer", "ä".repeat(100_000)));
        assert!(long.len() < 3_000 && long.starts_with("model.toml") && long.ends_with("needed a layer"), "{long}");
    }

    #[test]
    fn a_failure_keeps_the_error_that_caused_it() {
        let cause = vramfit_allocator::Settings::parse("nonsense:1").unwrap_err();
        let failure = Failure::at("--alloc-conf", cause.clone());
        assert_eq!(failure.to_string(), format!("--alloc-conf: {cause}"));
        assert_eq!(failure.source().and_then(|source| source.downcast_ref()), Some(&cause));
        assert_eq!(Failure::from(cause.clone()).source().map(ToString::to_string), Some(cause.to_string()));
    }
}
