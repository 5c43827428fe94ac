//! Why a file cannot be read.
//!
//! A message says where the error is, what was found and what was needed, but not which file: the caller knows its name.
//! [`ReadError::hint`] says what to do about it.

use std::io;

use thiserror::Error;

use crate::check::error::CheckError;
use crate::config::error::ConfigError;
use crate::kind::Kind;
use crate::model_toml::error::SketchError;
use crate::pt2::error::ArchiveError;
use crate::zip_archive::error::ZipError;

/// Why a file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The `config.json` describes something that is not modelled.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The `model.toml` is not valid.
    #[error(transparent)]
    Sketch(#[from] SketchError),
    /// The zip archive is damaged.
    #[error(transparent)]
    Zip(#[from] ZipError),
    /// The archive has no exported program, or an inconsistent one.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The file is inconsistent.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The operating system could not read the file.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file has no bytes, or only spaces.
    #[error("the file is empty, needed {needed}")]
    Empty {
        /// The formats that its name allows.
        needed: Kind,
    },
    /// The first bytes are not those of a model.
    #[error("byte 0: found {found}, needed {needed}")]
    NotAModel {
        /// The first bytes, or the format they belong to.
        found: String,
        /// The formats that its name allows.
        needed: Kind,
    },
    /// A JSON object of neither kind.
    #[error(
        "found a JSON object with neither `model_type`, as a config.json of Hugging Face has, nor `format`, as a capture"
    )]
    UnknownObject,
    /// The gzip layer is damaged or ends too early.
    #[error("gzip: after {offset} decompressed bytes: {source}")]
    Gzip {
        /// How many bytes had been decompressed.
        offset: u64,
        /// The error of the decompressor.
        source: io::Error,
    },
    /// Bytes follow the gzip member.
    #[error("{count} more bytes follow the compressed capture; nothing should")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// More bytes than a capture may have.
    #[error("the file has more than {limit} bytes, decompressed if it is gzip; at most that many are read")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The text is not UTF-8.
    #[error("byte {offset}: the text is not UTF-8 from here on")]
    NotText {
        /// Where it goes wrong, in the decompressed text.
        offset: usize,
    },
    /// The JSON ends too early.
    #[error("{path}: the JSON ends here, after {length} bytes, before it is complete")]
    TruncatedJson {
        /// Where the reader was.
        path: String,
        /// The length of the text.
        length: usize,
    },
    /// The JSON is not valid.
    #[error("{path}: line {line}, column {column}: {message}")]
    InvalidJson {
        /// Where the reader was.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// Lists and objects nest too deep.
    #[error("lists and objects nest more than {limit} levels deep")]
    NestedTooDeeply {
        /// The limit.
        limit: usize,
    },
    /// More values than a capture may have.
    #[error("{path}: the file holds more than {limit} values; at most that many are read")]
    TooManyValues {
        /// Where the reader was.
        path: String,
        /// The limit.
        limit: u32,
    },
    /// Another format.
    #[error("format: found `{found}`, needed `vramfit-capture`")]
    WrongFormat {
        /// What the file says it is.
        found: String,
    },
    /// Another version.
    #[error("version: found {found}; this vramfit reads version {known}")]
    UnknownVersion {
        /// What the file says.
        found: i64,
        /// What is known.
        known: i64,
    },
    /// A value of the wrong type.
    #[error("{path}: found {found}, needed {needed}")]
    WrongType {
        /// Where.
        path: String,
        /// What was found.
        found: &'static str,
        /// What was needed.
        needed: &'static str,
    },
    /// A required key is missing.
    #[error("{path}: the key `{key}` is missing")]
    MissingKey {
        /// The object.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A key that occurs twice.
    #[error("{path}: the key `{key}` occurs twice")]
    DuplicateKey {
        /// The object.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A list that is too short.
    #[error("{path}: found {found} elements; {needed} is missing")]
    MissingElement {
        /// The list.
        path: String,
        /// How many elements it has.
        found: usize,
        /// What is missing.
        needed: &'static str,
    },
    /// A list that is too long.
    #[error("{path}: found more than {needed} elements; the rest has no meaning")]
    ExtraElement {
        /// The list.
        path: String,
        /// How many elements have a meaning.
        needed: usize,
    },
    /// An argument of a kind that is not known.
    #[error("{path}: found an object of an unknown kind, needed one with one of the keys {}", known.join(", "))]
    UnknownKind {
        /// Where.
        path: String,
        /// The kinds that are known.
        known: &'static [&'static str],
    },
    /// An argument with several keys.
    #[error("{path}: found an object with several keys, needed one")]
    ExtraKey {
        /// Where.
        path: String,
    },
    /// A number outside its range.
    #[error("{path}: found {found}, needed {needed}")]
    OutOfRange {
        /// Where.
        path: String,
        /// The number.
        found: i128,
        /// What was needed.
        needed: &'static str,
    },
    /// A word that is not known.
    #[error("{path}: found `{found}`, needed {needed}")]
    UnknownWord {
        /// Where.
        path: String,
        /// The word.
        found: String,
        /// The words that are known.
        needed: &'static str,
    },
    /// An element type that is not known.
    #[error("{path}: found the dtype `{found}`, which is not known")]
    UnknownDtype {
        /// Where.
        path: String,
        /// Its name.
        found: String,
    },
    /// A text that should name a tensor and does not.
    #[error("{path}: found `{found}`, needed a tensor such as `%12`")]
    BadTensor {
        /// Where.
        path: String,
        /// The text.
        found: String,
    },
    /// An error in one entry of an archive.
    #[error("{entry}: {source}")]
    InEntry {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        source: Box<ReadError>,
    },
}

impl ReadError {
    /// The same, within an entry of an archive.
    pub(super) fn within(self, entry: &str) -> ReadError {
        ReadError::InEntry { entry: entry.to_owned(), source: Box::new(self) }
    }

    /// Whether the file is of another format or version.
    pub(super) fn is_about_version(&self) -> bool {
        matches!(self, ReadError::WrongFormat { .. } | ReadError::UnknownVersion { .. })
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ReadError::Io(_) => return None,
            ReadError::Config(_) => {
                "capture the model in Python: vramfit.capture(model, inputs, \"model.vramfit\"); docs/config-json.md says what is modelled"
            }
            ReadError::Sketch(_) => "docs/model-toml.md shows what a model.toml holds",
            ReadError::InEntry { source, .. } => match **source {
                ReadError::Archive(ArchiveError::UnknownSchema { .. }) | ReadError::UnknownDtype { .. } => {
                    return source.hint();
                }
                ReadError::TooManyValues { .. } | ReadError::Check(CheckError::TooManySymbols { .. }) => {
                    "no model needs that much; export the model again with torch.export.save"
                }
                _ => "the archive may be truncated or edited; export it again with torch.export.save",
            },
            ReadError::Archive(error) => error.hint(),
            ReadError::Zip(error) => error.hint(),
            ReadError::NotAModel { needed, .. } | ReadError::Empty { needed } => needed.hint(),
            ReadError::UnknownObject => Kind::Unknown.hint(),
            ReadError::WrongFormat { .. } => Kind::Capture.hint(),
            ReadError::UnknownVersion { found, known } if found > known => {
                "the file was written by a newer vramfit; update this one, or capture the model again with the Python package beside it"
            }
            ReadError::UnknownVersion { .. } => "capture the model again with the Python package beside this vramfit",
            ReadError::Gzip { .. }
            | ReadError::TrailingBytes { .. }
            | ReadError::NotText { .. }
            | ReadError::TruncatedJson { .. }
            | ReadError::InvalidJson { .. } => "the file may be truncated or damaged; copy it or make it again",
            ReadError::TooLarge { .. } | ReadError::TooManyValues { .. } => {
                "no model needs that much; is this the right file?"
            }
            ReadError::UnknownDtype { .. } => "cast the model or its inputs to a type that is known, such as float32",
            _ => "captures are not made to be edited; if vramfit.capture itself wrote this file, please report it",
        })
    }
}
