//! Every way a zip archive can be unreadable, one variant each.

use std::io;

use thiserror::Error;

/// Why a zip archive cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ZipError {
    /// A zip archive without the record that ends one.
    #[error("zip: no end record in the last bytes of the file's {length}")]
    WithoutEnd {
        /// The file's length.
        length: u64,
    },
    /// A zip archive that says something lies beyond its end.
    #[error("zip: bytes {begin} to {} are needed, the file has {length}", begin.saturating_add(*count))]
    Truncated {
        /// Where the bytes begin.
        begin: u64,
        /// How many there are.
        count: u64,
        /// The file's length.
        length: u64,
    },
    /// A zip archive that contradicts itself.
    #[error("zip: {what}")]
    Damaged {
        /// How.
        what: String,
    },
    /// A zip archive with more entries than any model's.
    #[error("zip: its list of entries has {found} bytes; at most {limit} are read")]
    ListTooLong {
        /// Its length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A zip archive without an entry that is needed.
    #[error("zip: the entry `{entry}` is missing")]
    EntryMissing {
        /// The entry.
        entry: String,
    },
    /// An entry that is packed in a way that is not read.
    #[error("zip: entry `{entry}`: found {found}, needed a stored or deflated one")]
    Method {
        /// The entry.
        entry: String,
        /// How it is packed.
        found: String,
    },
    /// An entry that is longer than any model's.
    #[error("zip: entry `{entry}` has more than {limit} bytes, unpacked; at most that many are read")]
    EntryTooLarge {
        /// The entry.
        entry: String,
        /// The limit.
        limit: u64,
    },
    /// An entry that unpacks to more than it says.
    #[error("zip: entry `{entry}` has more than {announced} bytes, unpacked; it announced that many")]
    UnpacksToMore {
        /// The entry.
        entry: String,
        /// How many it announced.
        announced: u64,
    },
    /// An entry whose compressed bytes are damaged.
    #[error("zip: entry `{entry}`: after {offset} unpacked bytes: {source}")]
    Deflate {
        /// The entry.
        entry: String,
        /// How many bytes had come out before.
        offset: u64,
        /// What the decompressor said.
        source: io::Error,
    },
    /// An entry that has another length than is said.
    #[error("zip: entry `{entry}` has {found} bytes, unpacked; {needed} were announced")]
    WrongLength {
        /// The entry.
        entry: String,
        /// How many there are.
        found: u64,
        /// How many there should be.
        needed: u64,
    },
}

impl ZipError {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            ZipError::EntryTooLarge { .. } | ZipError::ListTooLong { .. } => {
                "no model needs that much; export the model again with torch.export.save"
            }
            ZipError::Method { .. } => "leave the archive as torch.export.save writes it",
            _ => "the archive may be truncated or damaged; copy it again, or export it again with torch.export.save",
        }
    }
}
