//! Lists that were built before, recognised by the bytes that build them.
//!
//! PyTorch writes a list of frames for each event, and most of them repeat: the same run of opcodes takes the same values
//! from the memo. Such a run is not executed twice, as long as no memo entry is replaced.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::read::opcode::{APPENDS, BINGET, LONG_BINGET};

/// When the bytes held reach this many, all are forgotten.
const MOST_BYTES: usize = 16 << 20;

/// Runs of opcodes, each with the record that the list they built was condensed to.
#[derive(Debug)]
pub(crate) struct Runs<R> {
    bytes: Vec<u8>,
    runs: Vec<Run<R>>,
    /// Numbers of runs, by their bytes.
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// The run found last.
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Run<R> {
    start: usize,
    length: usize,
    record: R,
    /// The run that followed this one last time. A training step is like the one before, so it is tried first.
    next: u32,
}

impl<R: Copy> Runs<R> {
    pub(crate) fn new() -> Self {
        Runs {
            bytes: Vec::new(),
            runs: Vec::new(),
            table: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            last: 0,
        }
    }

    /// Where `bytes` begin with a run that was built before: its length, and the record of the list it builds.
    #[inline]
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<(usize, R)> {
        let next = self.runs.get(self.last as usize)?.next;
        let guess = &self.runs[next as usize];
        if bytes.starts_with(run_bytes(&self.bytes, guess)) {
            self.last = next;
            return Some((guess.length, guess.record));
        }
        let run = &bytes[..run_length(bytes)?];
        let hash = self.hasher.hash_one(run);
        let number = *self.table.find(hash, |&known| run_bytes(&self.bytes, &self.runs[known as usize]) == run)?;
        self.follow(number);
        Some((run.len(), self.runs[number as usize].record))
    }

    /// Remembers what `run` builds.
    pub(crate) fn insert(&mut self, run: &[u8], record: R) {
        if self.bytes.len() + run.len() > MOST_BYTES {
            self.bytes.clear();
            self.runs.clear();
            self.table.clear();
            self.last = 0;
        }
        let number = self.runs.len() as u32;
        self.runs.push(Run { start: self.bytes.len(), length: run.len(), record, next: number });
        self.bytes.extend_from_slice(run);
        let hash = self.hasher.hash_one(run);
        let Runs { bytes, runs, table, hasher, .. } = self;
        table.insert_unique(hash, number, |&known| hasher.hash_one(run_bytes(bytes, &runs[known as usize])));
        self.follow(number);
    }

    /// Notes that the run found last is followed by this one.
    fn follow(&mut self, number: u32) {
        self.runs[self.last as usize].next = number;
        self.last = number;
    }

    /// About how many bytes of memory the runs take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.runs.capacity() * size_of::<Run<R>>() + self.table.capacity() * size_of::<u32>()
    }
}

#[inline]
fn run_bytes<'a, R>(bytes: &'a [u8], run: &Run<R>) -> &'a [u8] {
    &bytes[run.start..][..run.length]
}

/// The length of the run that `bytes` begin with: BINGETs and LONG_BINGETs up to an APPENDS, which is counted.
#[inline]
pub(crate) fn run_length(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        match *bytes.get(length)? {
            LONG_BINGET => length += 5,
            BINGET => length += 2,
            APPENDS => return Some(length + 1),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_appends_and_holds_nothing_but_gets() {
        assert_eq!(run_length(b"h\x01j\x01\x02\x03\x04ex"), Some(8));
        assert_eq!(run_length(b"e"), Some(1));
        assert_eq!(run_length(b"h\x01Ke"), None);
        assert_eq!(run_length(b"h\x01j\x01\x02"), None);
        assert_eq!(run_length(b""), None);
    }

    #[test]
    fn a_run_is_found_again_by_its_bytes_alone() {
        let mut runs = Runs::new();
        runs.insert(b"h\x01h\x02e", 1);
        runs.insert(b"h\x02h\x01e", 2);
        for _ in 0..3 {
            assert_eq!(runs.find(b"h\x01h\x02eK"), Some((5, 1)));
            assert_eq!(runs.find(b"h\x02h\x01e"), Some((5, 2)));
            assert_eq!(runs.find(b"h\x02h\x01e"), Some((5, 2)));
            assert_eq!(runs.find(b"h\x01h\x01e"), None);
            assert_eq!(runs.find(b"h\x01h\x02"), None);
            assert_eq!(runs.find(b""), None);
        }
    }

    #[test]
    fn runs_beyond_the_limit_make_the_earlier_ones_forgotten() {
        let mut runs = Runs::new();
        let long = [b"h\x00".repeat(MOST_BYTES / 2 - 10), b"e".to_vec()].concat();
        runs.insert(&long, 1);
        runs.insert(&[b"h\x01".repeat(20), b"e".to_vec()].concat(), 2);
        assert_eq!(runs.find(&long), None);
        assert_eq!(runs.find(&[b"h\x01".repeat(20), b"e".to_vec()].concat()), Some((41, 2)));
    }

    #[test]
    fn the_memory_of_runs_is_that_of_their_bytes_and_numbers() {
        let mut runs = Runs::new();
        for number in 0..=255 {
            runs.insert(&[[b'h', number].repeat(50), b"e".to_vec()].concat(), number);
        }
        let least = 256 * (101 + size_of::<Run<u8>>() + size_of::<u32>());
        assert!((least..4 * least).contains(&runs.memory()), "{} of {least}", runs.memory());
    }
}
