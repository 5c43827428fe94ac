//! The settings text in pieces.

use super::SettingsError;

/// The settings text split at `,` `:` `[` `]`, without white space, as PyTorch splits it.
pub(super) struct Tokens {
    tokens: Vec<String>,
    position: usize,
}

impl Tokens {
    pub(super) fn new(text: &str) -> Tokens {
        let mut tokens = Vec::new();
        let mut word = String::new();
        for letter in text.chars() {
            if matches!(letter, ',' | ':' | '[' | ']') {
                if !word.is_empty() {
                    tokens.push(std::mem::take(&mut word));
                }
                tokens.push(letter.to_string());
            } else if !letter.is_whitespace() {
                word.push(letter);
            }
        }
        if !word.is_empty() {
            tokens.push(word);
        }
        Tokens { tokens, position: 0 }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        let token = self.tokens.get(self.position)?.clone();
        self.position += 1;
        Some(token)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.position >= self.tokens.len()
    }

    pub(super) fn peek_is(&self, token: &str) -> bool {
        self.tokens.get(self.position).is_some_and(|found| found == token)
    }

    pub(super) fn take(&mut self, token: &str) -> bool {
        let is_there = self.peek_is(token);
        self.position += usize::from(is_there);
        is_there
    }

    pub(super) fn expect(&mut self, needed: &'static str) -> Result<(), SettingsError> {
        if self.take(needed) { Ok(()) } else { Err(self.unexpected(needed)) }
    }

    pub(super) fn value(&mut self) -> Result<String, SettingsError> {
        match self.tokens.get(self.position) {
            Some(token) if !matches!(token.as_str(), "," | ":" | "[" | "]") => {
                self.position += 1;
                Ok(self.tokens[self.position - 1].clone())
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    pub(super) fn unexpected(&self, needed: &'static str) -> SettingsError {
        let found = self.tokens.get(self.position).map_or("the end".into(), |token| format!("`{token}`"));
        SettingsError::Syntax { found, needed, after: self.tokens[..self.position].concat() }
    }
}
