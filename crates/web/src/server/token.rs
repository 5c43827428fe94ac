//! The bearer token.

use std::fmt;
use std::path::Path;

use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

use super::request::Head;

/// Shorter ones can be guessed.
const MIN_LENGTH: usize = 16;

/// A secret that clients must send.
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Why there is no token where one was named.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It can be guessed, or cannot be sent.
    #[error(
        "{origin}: a token of {found} bytes; it must have at least {MIN_LENGTH} printable ASCII characters without spaces"
    )]
    Unfit {
        /// Where it comes from.
        origin: String,
        /// How long it is.
        found: usize,
    },
    /// The file cannot be read.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The environment variable is not UTF-8.
    #[error("VRAMFIT_TOKEN: not text")]
    NotText,
}

impl TokenError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            TokenError::Unfit { .. } => Some("make one with `head -c 24 /dev/urandom | base64`"),
            TokenError::File { .. } | TokenError::NotText => None,
        }
    }
}

impl Token {
    fn new(text: &str, origin: &str) -> Result<Token, TokenError> {
        let text = text.trim();
        if text.len() < MIN_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unfit { origin: origin.to_owned(), found: text.len() });
        }
        Ok(Token(text.as_bytes().to_vec()))
    }

    /// The token in the file, else in `VRAMFIT_TOKEN`.
    ///
    /// # Errors
    /// What was named is no token.
    pub fn find(file: Option<&Path>) -> Result<Option<Token>, TokenError> {
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|error| TokenError::File { path: path.display().to_string(), error })?;
            return Token::new(text.lines().next().unwrap_or_default(), &path.display().to_string()).map(Some);
        }
        match std::env::var("VRAMFIT_TOKEN") {
            Ok(text) => Token::new(&text, "VRAMFIT_TOKEN").map(Some),
            Err(std::env::VarError::NotPresent) => Ok(None),
            // Taking this for no token would open what was meant to be closed.
            Err(std::env::VarError::NotUnicode(_)) => Err(TokenError::NotText),
        }
    }

    /// Whether a request carries the token as `Authorization: Bearer TOKEN`.
    pub fn allows(&self, request: &Head) -> bool {
        let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = header.and_then(|value| {
            let (scheme, rest) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| rest.trim())
        });
        self.matches(sent.unwrap_or_default().as_bytes())
    }

    /// Takes the same time wherever the first difference is, so that no prefix can be found out.
    fn matches(&self, sent: &[u8]) -> bool {
        self.0.ct_eq(sent).into()
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token::new("0123456789abcdef\n", "test").unwrap();
        assert!(token.matches(b"0123456789abcdef"));
        for wrong in
            ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]
        {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_comparison_takes_as_long_wherever_the_difference_is() {
        // Long enough that stopping at the first difference would be thousands of times as fast.
        let text = "x".repeat(1 << 20);
        let token = Token::new(&text, "test").unwrap();
        let time = |wrong: usize| {
            let mut sent = text.clone().into_bytes();
            sent[wrong] = b'y';
            let one = |_| {
                let start = Instant::now();
                assert!(!token.matches(black_box(&sent)));
                start.elapsed()
            };
            (0..20).map(one).min().unwrap_or_default()
        };
        let (first, last) = (time(0), time((1 << 20) - 1));
        assert!(first * 4 > last && last * 4 > first, "{first:?} and {last:?}");
    }

    #[test]
    fn tokens_that_can_be_guessed_are_refused() {
        for weak in ["", "short", "with a space in it!", "éééééééééééééééé"] {
            assert!(Token::new(weak, "test").is_err(), "{weak}");
        }
    }
}
