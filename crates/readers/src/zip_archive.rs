//! A zip archive of which only the list of entries and single entries are read, never the weights.
//!
//! The `zip` crate parses the format and verifies checksums. This module adds the limits: lengths are checked against the
//! file and a limit before memory is allocated for them.

pub(crate) mod error;

use std::io::{BufReader, Read, Seek, SeekFrom};

use zip::CompressionMethod;
use zip::read::{ArchiveOffset, Config, ZipArchive};
use zip::unstable::read::ZipIterable;

use super::error::ReadError;
use super::input::FIRST_ALLOCATION;
pub use error::ZipError;

/// The most entries of an archive; a model of 100,000 weights has as many.
const ENTRY_LIMIT: usize = 1 << 20;

/// An archive begins where its file does: what precedes it is not searched for.
const CONFIG: Config = Config { archive_offset: ArchiveOffset::Known(0) };

/// An archive whose list of entries has been read.
pub(super) struct Archive<File> {
    zip: ZipArchive<BufReader<File>>,
    /// The file's length.
    length: u64,
}

impl<File: Read + Seek> Archive<File> {
    /// Reads the list of entries, and nothing else.
    pub(super) fn open(mut file: File) -> Result<Archive<File>, ReadError> {
        let length = file.seek(SeekFrom::End(0)).map_err(ReadError::Io)?;
        let mut file = BufReader::new(file);
        let found = ZipIterable::try_new(&mut file, CONFIG).map_err(ZipError::Unreadable)?.len();
        if found > ENTRY_LIMIT {
            return Err(ZipError::TooManyEntries { found, limit: ENTRY_LIMIT }.into());
        }
        Ok(Archive { zip: ZipArchive::with_config(CONFIG, file).map_err(ZipError::Unreadable)?, length })
    }

    /// The names of all entries that are text.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.zip.file_names_raw().filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// The text of an entry, of at most `limit` bytes.
    pub(super) fn text(&mut self, name: &str, limit: u64) -> Result<String, ReadError> {
        let not_text =
            |error: std::string::FromUtf8Error| ReadError::NotText { offset: error.utf8_error().valid_up_to() };
        String::from_utf8(self.bytes(name, limit)?).map_err(|error| not_text(error).within(name))
    }

    /// The bytes of an entry, at most `limit` of them.
    pub(super) fn bytes(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let entry = || name.to_owned();
        let missing = || ReadError::from(ZipError::EntryMissing { entry: entry() });
        let index = self.zip.index_for_name_raw(name.as_bytes()).ok_or_else(missing)?;
        let listed = self.zip.by_index_data(index).map_err(ZipError::Unreadable)?;
        let found = match listed.compression() {
            _ if listed.encrypted() => Some("encryption".to_owned()),
            CompressionMethod::Stored | CompressionMethod::Deflated => None,
            other => Some(other.to_string()),
        };
        if let Some(found) = found {
            return Err(ZipError::Method { entry: entry(), found }.into());
        }
        let (announced, begin, count) = (listed.size(), listed.header_start(), listed.compressed_size());
        if announced > limit {
            return Err(ZipError::EntryTooLarge { entry: entry(), limit }.into());
        }
        if begin.checked_add(count).is_none_or(|end| end > self.length) {
            return Err(ZipError::Truncated { begin, count, length: self.length }.into());
        }
        // The announced length may be wrong: beyond this, memory is allocated as bytes come.
        let mut bytes = Vec::with_capacity((announced as usize).saturating_add(1).min(FIRST_ALLOCATION));
        let mut file = self.zip.by_index(index).map_err(ZipError::Unreadable)?;
        let read = file.read_to_end(&mut bytes);
        let found = bytes.len() as u64;
        if found > announced {
            return Err(ZipError::UnpacksToMore { entry: entry(), announced }.into());
        }
        read.map_err(|source| ZipError::Content { entry: entry(), offset: found, source })?;
        if found != announced {
            return Err(ZipError::WrongLength { entry: entry(), found, needed: announced }.into());
        }
        Ok(bytes)
    }
}
