//! Why a zip archive cannot be read.

use std::io;

use thiserror::Error;

/// Why a zip archive cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ZipError {
    /// The end record, the list of entries or the head of an entry is missing or damaged.
    #[error("zip: {0}")]
    Unreadable(#[source] zip::result::ZipError),
    /// An entry that extends beyond the end of the file.
    #[error("zip: bytes {begin} to {} are needed, the file has {length}", begin.saturating_add(*count))]
    Truncated {
        /// Where the bytes begin.
        begin: u64,
        /// How many there are.
        count: u64,
        /// The file's length.
        length: u64,
    },
    /// More entries than any model has.
    #[error("zip: the archive has {found} entries; at most {limit} are read")]
    TooManyEntries {
        /// How many it has.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A needed entry is missing.
    #[error("zip: the entry `{entry}` is missing")]
    EntryMissing {
        /// The entry.
        entry: String,
    },
    /// An entry with a compression method that is not read, or an encrypted one.
    #[error("zip: entry `{entry}`: found {found}, needed a stored or deflated one")]
    Method {
        /// The entry.
        entry: String,
        /// The method.
        found: String,
    },
    /// An entry that is larger than any model's.
    #[error("zip: entry `{entry}` has more than {limit} bytes, unpacked; at most that many are read")]
    EntryTooLarge {
        /// The entry.
        entry: String,
        /// The limit.
        limit: u64,
    },
    /// An entry that decompresses to more bytes than announced.
    #[error("zip: entry `{entry}` has more than {announced} bytes, unpacked; it announced that many")]
    UnpacksToMore {
        /// The entry.
        entry: String,
        /// How many it announced.
        announced: u64,
    },
    /// An entry whose bytes are damaged: they do not decompress, or have another checksum.
    #[error("zip: entry `{entry}`: after {offset} unpacked bytes: {source}")]
    Content {
        /// The entry.
        entry: String,
        /// How many bytes had been decompressed.
        offset: u64,
        /// What went wrong.
        source: io::Error,
    },
    /// An entry that has fewer bytes than announced.
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
            ZipError::EntryTooLarge { .. } | ZipError::TooManyEntries { .. } => {
                "no model needs that much; export the model again with torch.export.save"
            }
            ZipError::Method { .. } => "leave the archive as torch.export.save writes it",
            _ => "the archive may be truncated or damaged; copy it again, or export it again with torch.export.save",
        }
    }
}
