//! What the reader knows on its way through the JSON: what went wrong and where, and the texts that are kept once.

use std::cell::{Cell, RefCell};
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use serde::de;

use crate::ReadError;
use vramfit_graph::model::{ExpressionId, Size};
use vramfit_graph::select::VariantFlags;

/// The JSON values that are read of a file at most; a 7-billion-parameter Llama has 0.5 million.
const VALUE_LIMIT: u32 = 16_000_000;
/// How deep lists and objects may nest: serde_json's own limit.
const DEPTH_LIMIT: usize = 128;

/// One step of the way to a value.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// A key of an object.
    Key(&'static str),
    /// A key of an object that may have any.
    Name(String),
    /// An element of a list.
    Index(usize),
}

/// What went wrong, once it is known where.
type Failure = Box<dyn FnOnce(String) -> ReadError>;

/// The state of one reading.
#[derive(Default)]
pub(crate) struct Context {
    /// The way to what went wrong, from there to the outside: empty unless reading fails.
    path: RefCell<Vec<Segment>>,
    /// What went wrong, where that is more than serde_json can say.
    failure: RefCell<Option<Failure>>,
    texts: RefCell<Texts>,
    /// Which variant whoever reads is going to use.
    pub(crate) wanted: Option<VariantFlags>,
    /// The one section of the next list of sections that is needed.
    only: Cell<Option<usize>>,
    values: Cell<u32>,
}

/// The number of a text that [`Context::text`] was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TextId(pub(crate) u32);

#[derive(Default)]
struct Texts {
    hasher: DefaultHashBuilder,
    /// Numbers by their texts.
    numbers: HashTable<u32>,
    texts: Vec<Box<str>>,
}

impl Context {
    pub(crate) fn new() -> Self {
        Context::default()
    }

    /// For whoever needs one variant only.
    pub(crate) fn wanting(wanted: Option<VariantFlags>) -> Self {
        Context { wanted, ..Context::default() }
    }

    /// Says that of the list of sections that comes next only this one is needed, or all.
    pub(crate) fn need_only(&self, section: Option<usize>) {
        self.only.set(section);
    }

    /// What [`Context::need_only`] said.
    pub(crate) fn needed_only(&self) -> Option<usize> {
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

    /// Says on the way out that what went wrong lies in there.
    #[cold]
    pub(crate) fn within(&self, segment: Segment) {
        self.path.borrow_mut().push(segment);
    }

    /// Where something went wrong, such as `steps[0][17][2]`.
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

    /// Remembers what went wrong; what it returns ends the reading. The failure is given its path when that is known.
    #[cold]
    pub(crate) fn fail<Error: de::Error>(&self, failure: impl FnOnce(String) -> ReadError + 'static) -> Error {
        self.failure.borrow_mut().get_or_insert(Box::new(failure));
        Error::custom("")
    }

    /// Remembers what went wrong with a text, which the failure is given after its path.
    #[cold]
    pub(crate) fn fail_with<Error: de::Error>(
        &self,
        text: &str,
        failure: impl FnOnce(String, String) -> ReadError + 'static,
    ) -> Error {
        let text = text.to_owned();
        self.fail(|path| failure(path, text))
    }

    /// What went wrong, given what serde_json says.
    pub(crate) fn error(&self, error: &serde_json::Error, length: usize) -> ReadError {
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
        ReadError::InvalidJson { path, line: error.line(), column: error.column(), message }
    }

    /// The number of a text; the same text gets the same number.
    pub(crate) fn text(&self, text: &str) -> TextId {
        let Texts { hasher, numbers, texts } = &mut *self.texts.borrow_mut();
        let hash = |number: &u32| hasher.hash_one(&*texts[*number as usize]);
        let is_it = |number: &u32| *texts[*number as usize] == *text;
        match numbers.entry(hasher.hash_one(text), is_it, hash) {
            Entry::Occupied(entry) => TextId(*entry.get()),
            Entry::Vacant(entry) => {
                // No more texts than values, whose number has a limit far below 2^32.
                let number = texts.len() as u32;
                entry.insert(number);
                texts.push(text.into());
                TextId(number)
            }
        }
    }

    /// The size that an expression stands for, which has its text's number.
    pub(crate) fn expression(&self, text: &str) -> Size {
        Size::Symbolic(ExpressionId(self.text(text).0))
    }

    /// All texts, by number.
    pub(crate) fn take_texts(&self) -> Vec<Box<str>> {
        std::mem::take(&mut self.texts.borrow_mut().texts)
    }
}
