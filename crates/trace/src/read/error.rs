//! Why a file cannot be read.
//!
//! A message has the position, what was found and what was expected, but not the file's name, which the caller knows.
//! [`ReadError::hint`] suggests what to do.

use std::io;

use thiserror::Error;

/// Why a file is not a readable snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system could not read the file.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file has no bytes.
    #[error("the file is empty; a snapshot was needed")]
    Empty,
    /// Neither a pickle nor a gzip file.
    #[error("byte 0: found {found}; a pickle of protocol 2 to 5 begins with byte 0x80")]
    NotAPickle {
        /// The first bytes, or the format they belong to.
        found: String,
    },
    /// The gzip layer is damaged or ends too early.
    #[error("gzip: after {offset} decompressed bytes: {source}")]
    Gzip {
        /// How many bytes were decompressed before.
        offset: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// The snapshot has too many bytes.
    #[error("the snapshot has more than {limit} bytes, decompressed if it is gzip; at most that many are read")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The values of the file would take too much memory.
    #[error("byte {offset}: the values read so far take {found} bytes; {stored} bytes of the file may build {limit}")]
    TooMuchMemory {
        /// How far the file had been read.
        offset: u64,
        /// About how many bytes the values take.
        found: u64,
        /// The limit for the bytes read so far.
        limit: u64,
        /// How many bytes of the file as stored had been read.
        stored: u64,
    },
    /// A table of the reader is full.
    #[error("byte {offset}: opcode {opcode}: more than 2^32 values of one kind")]
    TooManyValues {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// A pickle protocol that does not exist or is too old.
    #[error("byte {offset}: pickle protocol {found}; 2 to 5 are read")]
    Protocol {
        /// The opcode's offset.
        offset: u64,
        /// The protocol found.
        found: u8,
    },
    /// The file ends without STOP.
    #[error("byte {offset}: the file ends here, without the opcode STOP")]
    NoStop {
        /// The length of the file.
        offset: u64,
    },
    /// The file ends inside an opcode.
    #[error("byte {offset}: the file ends here, inside the opcode {opcode} that begins at byte {start}")]
    Truncated {
        /// The length of the file.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The opcode's offset.
        start: u64,
    },
    /// A length field is larger than the rest of the file.
    #[error("byte {offset}: opcode {opcode} has a length of {length} bytes; {remaining} are left in the file")]
    LengthBeyondEnd {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length found.
        length: u64,
        /// How many bytes follow.
        remaining: u64,
    },
    /// A length field is larger than any value of a snapshot.
    #[error("byte {offset}: opcode {opcode} has a length of {length} bytes; at most {limit} are read")]
    ValueTooLong {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length found.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A signed length field is negative.
    #[error("byte {offset}: opcode {opcode} has the negative length {length}")]
    NegativeLength {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length found.
        length: i64,
    },
    /// Bytes after the end of the pickle.
    #[error("byte {offset}: more bytes follow the opcode STOP, which should be the last")]
    TrailingBytes {
        /// The offset of the first of them.
        offset: u64,
    },
    /// The pickle would import or call something.
    #[error("byte {offset}: opcode {opcode} would import or call code; a snapshot is data only")]
    ForbiddenOpcode {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// An opcode that writes its value as a line of text, as only protocols 0 and 1 do.
    #[error("byte {offset}: opcode {opcode} is of the text protocols 0 and 1; 2 to 5 are read")]
    TextOpcode {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// No pickle opcode has this byte.
    #[error("byte {offset}: 0x{byte:02x} is no pickle opcode")]
    UnknownOpcode {
        /// Its offset.
        offset: u64,
        /// The byte.
        byte: u8,
    },
    /// An opcode needs values that were not built.
    #[error("byte {offset}: opcode {opcode} needs {needed} values on the stack; {found} are there")]
    StackUnderflow {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many values it needs.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// An opcode takes everything since the last MARK, and there is none.
    #[error("byte {offset}: opcode {opcode} needs a MARK before it; there is none")]
    NoMark {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// An opcode adds to something that cannot be added to.
    #[error("byte {offset}: opcode {opcode} adds to a {needed}; found {found}")]
    WrongTarget {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// What it can add to.
        needed: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A dictionary's last key has no value.
    #[error("byte {offset}: opcode {opcode} needs pairs of key and value; found {found} values")]
    KeyWithoutValue {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many values there are.
        found: usize,
    },
    /// The memo has no such entry.
    #[error("byte {offset}: opcode {opcode} needs memo entry {index}, which was not stored")]
    NoMemoEntry {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The missing entry.
        index: u32,
    },
    /// A string is not UTF-8.
    #[error("byte {offset}: opcode {opcode}: the string is not UTF-8 after its first {valid} bytes")]
    InvalidText {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many bytes are valid.
        valid: usize,
    },
    /// A trace entry, frame or stack changes after it was used, which no pickler does.
    #[error("byte {offset}: opcode {opcode} changes a {found} that is already complete")]
    ChangedAfterUse {
        /// The opcode's offset.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// What it changes.
        found: &'static str,
    },
    /// A valid pickle of something else.
    #[error("the pickle holds {found}; a dict with `segments` or `device_traces`, or a list of segments, was needed")]
    NotASnapshot {
        /// What it holds.
        found: String,
    },
    /// A value of the wrong type.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// The value's path in Python's notation.
        path: String,
        /// What was needed.
        expected: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A required key is missing.
    #[error("{path}: the key `{key}` is missing")]
    MissingKey {
        /// The value's path in Python's notation.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A number out of its range.
    #[error("{path}: found {found}, expected {expected}")]
    OutOfRange {
        /// The value's path in Python's notation.
        path: String,
        /// The number.
        found: i128,
        /// What was needed.
        expected: &'static str,
    },
    /// A word that PyTorch does not use for this key.
    #[error("{path}: found `{found}`, expected {expected}")]
    UnknownWord {
        /// The value's path in Python's notation.
        path: String,
        /// The word.
        found: String,
        /// The known words.
        expected: &'static str,
    },
    /// The blocks of a segment leave a gap, overlap or do not fill it.
    #[error(
        "{path}: the block begins or ends at address {found:#x}, expected {expected:#x}: blocks must fill a segment"
    )]
    BlocksDoNotTile {
        /// The value's path in Python's notation.
        path: String,
        /// The address found.
        found: u64,
        /// The address needed.
        expected: u64,
    },
    /// A segment or block passes the end of the address space.
    #[error("{path}: address {address:#x} and size {size} pass the end of the address space")]
    AddressOverflow {
        /// The value's path in Python's notation.
        path: String,
        /// The address.
        address: u64,
        /// The size.
        size: u64,
    },
    /// `allocator_settings` is nested too deeply.
    #[error("{path}: more than {limit} levels deep")]
    NestedTooDeeply {
        /// The value's path in Python's notation.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// `allocator_settings` is too large.
    #[error("{path}: the settings hold more than {limit} values or bytes of text")]
    SettingsTooLarge {
        /// The value's path in Python's notation.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// The same lists and dicts are referred to so often that reading them would take too long.
    #[error("{path}: the same lists and dicts are used over and over; each is expected once")]
    SharedTooOften {
        /// The value's path in Python's notation.
        path: String,
    },
}

impl ReadError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        use ReadError::*;
        Some(match self {
            Io(_) => return None,
            Empty => "the program may have crashed while writing; dump the snapshot again",
            NotAPickle { .. } | NotASnapshot { .. } => {
                "write the file with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"
            }
            Gzip { .. } => "the file may be truncated or damaged; copy it again, or compress it again with gzip",
            NoStop { .. } | Truncated { .. } | LengthBeyondEnd { .. } => {
                "the file may be truncated; copy it again, or dump the snapshot again"
            }
            TooLarge { .. } | TooMuchMemory { .. } | TooManyValues { .. } => {
                "record fewer events: torch.cuda.memory._record_memory_history(max_entries=1000000)"
            }
            Protocol { .. } | TextOpcode { .. } => {
                "load the file in Python and write it again with pickle.dump(snapshot, file, protocol=4)"
            }
            TrailingBytes { .. } => "the file may hold several pickles; keep one snapshot a file",
            ForbiddenOpcode { .. } => {
                "do not load this file with Python's pickle unless you trust its author; a snapshot never needs this"
            }
            UnknownOpcode { .. }
            | ValueTooLong { .. }
            | NegativeLength { .. }
            | StackUnderflow { .. }
            | NoMark { .. }
            | WrongTarget { .. }
            | KeyWithoutValue { .. }
            | NoMemoEntry { .. }
            | InvalidText { .. }
            | ChangedAfterUse { .. } => "the file may be damaged; copy it again, or dump the snapshot again",
            WrongType { .. }
            | MissingKey { .. }
            | OutOfRange { .. }
            | UnknownWord { .. }
            | BlocksDoNotTile { .. }
            | AddressOverflow { .. }
            | NestedTooDeeply { .. }
            | SettingsTooLarge { .. }
            | SharedTooOften { .. } => {
                "snapshots of PyTorch 2.1 to 2.15 are known; if PyTorch itself wrote this file, please report it"
            }
        })
    }
}
