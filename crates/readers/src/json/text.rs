//! Texts that occur many times in a file: each is kept once and has a number.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};

/// The number of a text in [`Texts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct TextId(pub(crate) u32);

/// Distinct texts, numbered from 0.
#[derive(Default)]
pub(super) struct Texts {
    hasher: DefaultHashBuilder,
    numbers: HashTable<u32>,
    /// By number.
    pub(super) texts: Vec<Box<str>>,
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> TextId {
        let Texts { hasher, numbers, texts } = self;
        let hash = |number: &u32| hasher.hash_one(&*texts[*number as usize]);
        let is_it = |number: &u32| *texts[*number as usize] == *text;
        match numbers.entry(hasher.hash_one(text), is_it, hash) {
            Entry::Occupied(entry) => TextId(*entry.get()),
            Entry::Vacant(entry) => {
                // There are no more texts than values, whose limit is far below 2^32.
                let number = texts.len() as u32;
                entry.insert(number);
                texts.push(text.into());
                TextId(number)
            }
        }
    }
}
