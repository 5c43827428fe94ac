//! Every way a snapshot file can be bad, one variant each.
//!
//! A message says where, what was found and what was needed, but not which file: the caller knows its name. What to do
//! about it is [`ReadError::hint`].

use std::io;

use thiserror::Error;

/// Why a file is not a readable snapshot.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system could not give the file's bytes.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file has no bytes.
    #[error("the file is empty; a snapshot was needed")]
    Empty,
    /// The first byte begins neither a pickle nor a gzip file.
    #[error("byte 0: found {found}; a pickle of protocol 2 to 5 begins with byte 0x80")]
    NotAPickle {
        /// The first bytes, or what they are known to begin.
        found: String,
    },
    /// The gzip layer is damaged or ends too early.
    #[error("gzip: after {offset} decompressed bytes: {source}")]
    Gzip {
        /// How many bytes had come out before.
        offset: u64,
        /// What the decompressor said.
        source: io::Error,
    },
    /// More bytes than a snapshot may have.
    #[error("the snapshot has more than {limit} bytes, decompressed if it is gzip; at most that many are read")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// What the file builds would take too much memory.
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
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// The pickle says a protocol that does not exist or is too old.
    #[error("byte {offset}: pickle protocol {found}; 2 to 5 are read")]
    Protocol {
        /// Where it is said.
        offset: u64,
        /// The protocol found.
        found: u8,
    },
    /// The file ends where an opcode should be.
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
        /// Where the opcode lies.
        start: u64,
    },
    /// A length field says more than there is.
    #[error("byte {offset}: opcode {opcode} has a length of {length} bytes; {remaining} are left in the file")]
    LengthBeyondEnd {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length said.
        length: u64,
        /// How many bytes follow.
        remaining: u64,
    },
    /// A length field says more than any value of a snapshot has.
    #[error("byte {offset}: opcode {opcode} has a length of {length} bytes; at most {limit} are read")]
    ValueTooLong {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length said.
        length: u64,
        /// The limit.
        limit: u64,
    },
    /// A signed length field is negative.
    #[error("byte {offset}: opcode {opcode} has the negative length {length}")]
    NegativeLength {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The length said.
        length: i64,
    },
    /// Bytes follow the pickle's end.
    #[error("byte {offset}: more bytes follow the opcode STOP, which should be the last")]
    TrailingBytes {
        /// Where the first of them lies.
        offset: u64,
    },
    /// The pickle wants to import or call something.
    #[error("byte {offset}: opcode {opcode} would import or call code; a snapshot is data only")]
    ForbiddenOpcode {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// An opcode that writes its value as a line of text, as only protocols 0 and 1 do.
    #[error("byte {offset}: opcode {opcode} is of the text protocols 0 and 1; 2 to 5 are read")]
    TextOpcode {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// No pickle opcode has this byte.
    #[error("byte {offset}: 0x{byte:02x} is no pickle opcode")]
    UnknownOpcode {
        /// Where it lies.
        offset: u64,
        /// The byte.
        byte: u8,
    },
    /// An opcode needs values that were not built.
    #[error("byte {offset}: opcode {opcode} needs {needed} values on the stack; {found} are there")]
    StackUnderflow {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many values it takes.
        needed: usize,
        /// How many there are.
        found: usize,
    },
    /// An opcode takes everything since the last MARK, and there is none.
    #[error("byte {offset}: opcode {opcode} needs a MARK before it; there is none")]
    NoMark {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
    },
    /// An opcode adds to something that cannot be added to.
    #[error("byte {offset}: opcode {opcode} adds to a {needed}; found {found}")]
    WrongTarget {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// What it can add to.
        needed: &'static str,
        /// What lies there.
        found: &'static str,
    },
    /// A dictionary's last key has no value.
    #[error("byte {offset}: opcode {opcode} needs pairs of key and value; found {found} values")]
    KeyWithoutValue {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many values there are.
        found: usize,
    },
    /// The memo has no such entry.
    #[error("byte {offset}: opcode {opcode} asks for memo entry {index}, which was not stored")]
    NoMemoEntry {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// The entry asked for.
        index: u32,
    },
    /// A string is not UTF-8.
    #[error("byte {offset}: opcode {opcode}: the string is not UTF-8 after its first {valid} bytes")]
    InvalidText {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// How many bytes are good.
        valid: usize,
    },
    /// A trace entry, frame or stack is added to after something used it, which no pickler does.
    #[error("byte {offset}: opcode {opcode} changes a {found} that is already complete")]
    ChangedAfterUse {
        /// Where the opcode lies.
        offset: u64,
        /// The opcode.
        opcode: &'static str,
        /// What it changes.
        found: &'static str,
    },
    /// A sound pickle of something else.
    #[error("the pickle holds {found}; a dict with `segments` or `device_traces`, or a list of segments, was needed")]
    NotASnapshot {
        /// What it holds.
        found: String,
    },
    /// A value of the wrong type.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// Where, as Python would say it.
        path: String,
        /// What was needed.
        expected: &'static str,
        /// What was found.
        found: &'static str,
    },
    /// A key that cannot be done without.
    #[error("{path}: the key `{key}` is missing")]
    MissingKey {
        /// Where, as Python would say it.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A number that cannot be.
    #[error("{path}: found {found}, expected {expected}")]
    OutOfRange {
        /// Where, as Python would say it.
        path: String,
        /// The number.
        found: i128,
        /// What was needed.
        expected: &'static str,
    },
    /// A word that PyTorch does not use there.
    #[error("{path}: found `{found}`, expected {expected}")]
    UnknownWord {
        /// Where, as Python would say it.
        path: String,
        /// The word.
        found: String,
        /// The words that are known.
        expected: &'static str,
    },
    /// The blocks of a segment leave a gap, overlap or do not fill it.
    #[error(
        "{path}: the block begins or ends at address {found:#x}, expected {expected:#x}: blocks must fill a segment"
    )]
    BlocksDoNotTile {
        /// Where, as Python would say it.
        path: String,
        /// The address found.
        found: u64,
        /// The address needed.
        expected: u64,
    },
    /// A segment or block passes the end of the address space.
    #[error("{path}: address {address:#x} and size {size} pass the end of the address space")]
    AddressOverflow {
        /// Where, as Python would say it.
        path: String,
        /// The address.
        address: u64,
        /// The size.
        size: u64,
    },
    /// `allocator_settings` nests deeper than can be.
    #[error("{path}: more than {limit} levels deep")]
    NestedTooDeeply {
        /// Where, as Python would say it.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// `allocator_settings` is larger than can be.
    #[error("{path}: the settings hold more than {limit} values or bytes of text")]
    SettingsTooLarge {
        /// Where, as Python would say it.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// The same list or dict is used in so many places that reading it would never end.
    #[error("{path}: the same lists and dicts are used over and over; each is expected once")]
    SharedTooOften {
        /// Where, as Python would say it.
        path: String,
    },
}

impl ReadError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        use ReadError::*;
        Some(match self {
            Io(_) => return None,
            Empty => "the program may have died while writing; dump the snapshot again",
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
