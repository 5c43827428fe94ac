//! The state of reading one JSON text: the path to an error, the distinct texts, the number of values.

use std::cell::{Cell, RefCell};

use serde::de;

use super::text::{TextId, Texts};
use crate::error::ReadError;
use vramfit_graph::model::{ExpressionId, Size};
use vramfit_graph::select::VariantFlags;

/// The JSON values that are read of a file at most; a 7-billion-parameter Llama has 0.5 million.
const VALUE_LIMIT: u32 = 16_000_000;
/// How deep lists and objects may nest: serde_json's own limit.
const DEPTH_LIMIT: usize = 128;

/// One part of the path to a value.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// A key of an object.
    Key(&'static str),
    /// A key of an object that may have any.
    Name(String),
    /// An element of a list.
    Index(usize),
}

/// Makes the error once its path is known.
type Failure = Box<dyn FnOnce(String) -> ReadError>;

/// The state of reading one JSON text.
#[derive(Default)]
pub(crate) struct ParseState {
    /// The path to the error, innermost part first; empty unless reading fails.
    path: RefCell<Vec<Segment>>,
    /// The error, where it is one of ours and not serde_json's.
    failure: RefCell<Option<Failure>>,
    texts: RefCell<Texts>,
    /// The one variant that the caller needs, if it needs only one.
    pub(crate) wanted: Option<VariantFlags>,
    /// The one section of the next list of sections that is needed.
    only: Cell<Option<Vec<usize>>>,
    values: Cell<u32>,
}

impl ParseState {
    pub(crate) fn new() -> Self {
        ParseState::default()
    }

    /// For a caller that needs one variant only, or all.
    pub(crate) fn wanting(wanted: Option<VariantFlags>) -> Self {
        ParseState { wanted, ..ParseState::default() }
    }

    /// Of the next list of sections, only these are needed, or all.
    pub(crate) fn need_only(&self, sections: Option<Vec<usize>>) {
        self.only.set(sections);
    }

    /// The sections that [`ParseState::need_only`] chose.
    pub(crate) fn needed_only(&self) -> Option<Vec<usize>> {
        self.only.take()
    }

    /// Counts one value.
    #[inline]
    pub(crate) fn count<Error: de::Error>(&self) -> Result<(), Error> {
        let values = self.values.get() + 1;
        self.values.set(values);
        if values <= VALUE_LIMIT {
            return Ok(());
        }
        Err(self.fail(|path| ReadError::TooManyValues { path, limit: VALUE_LIMIT }))
    }

    /// Adds a part to the path of an error, while returning from it.
    #[cold]
    pub(crate) fn within(&self, segment: Segment) {
        self.path.borrow_mut().push(segment);
    }

    /// The path of the error, such as `steps[0][17][2]`.
    fn path(&self) -> String {
        let mut text = String::new();
        for segment in self.path.borrow().iter().rev() {
            match segment {
                Segment::Key(key) if text.is_empty() => text.push_str(key),
                Segment::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Segment::Name(name) => text.push_str(&format!("[`{name}`]")),
                Segment::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        if text.is_empty() { "top level".to_owned() } else { text }
    }

    /// Remembers an error, which gets its path once that is known. The returned error ends the reading.
    #[cold]
    pub(crate) fn fail<Error: de::Error>(&self, failure: impl FnOnce(String) -> ReadError + 'static) -> Error {
        self.failure.borrow_mut().get_or_insert(Box::new(failure));
        Error::custom("")
    }

    /// The same for an error that names a text of the file.
    #[cold]
    pub(crate) fn fail_with<Error: de::Error>(
        &self,
        text: &str,
        failure: impl FnOnce(String, String) -> ReadError + 'static,
    ) -> Error {
        let text = text.to_owned();
        self.fail(|path| failure(path, text))
    }

    /// The error of a reading that ended with serde_json's.
    pub(crate) fn error(&self, error: serde_json::Error, length: usize) -> ReadError {
        let path = self.path();
        if let Some(failure) = self.failure.borrow_mut().take() {
            return failure(path);
        }
        // A number that is cut off is an invalid one to serde_json, not an end.
        let is_at_end = error.line() == 1 && error.column() >= length;
        if error.is_eof() || is_at_end {
            return ReadError::TruncatedJson { path, length };
        }
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        if message == "recursion limit exceeded" {
            return ReadError::NestedTooDeeply { limit: DEPTH_LIMIT };
        }
        ReadError::InvalidJson { path, line: error.line(), column: error.column(), message, source: error }
    }

    /// The number of a text.
    pub(crate) fn text(&self, text: &str) -> TextId {
        self.texts.borrow_mut().number(text)
    }

    /// The size of an expression, which has the number of its text.
    pub(crate) fn expression(&self, text: &str) -> Size {
        Size::Symbolic(ExpressionId(self.text(text).0))
    }

    /// All texts, by number.
    pub(crate) fn take_texts(&self) -> Vec<Box<str>> {
        std::mem::take(&mut self.texts.borrow_mut().texts)
    }
}
