//! Reads models from files; each format has its own module.
//!
//! ```no_run
//! let model = vramfit_readers::read_file("model.vramfit")?;
//! println!("{} operators", model.operators.len());
//! # Ok::<(), vramfit_readers::ReadError>(())
//! ```
//!
//! Files are untrusted: reading one gives a [`Model`] in which every index is in range, or a [`ReadError`] that says what is
//! wrong and where.

mod capture;
mod check;
mod config;
mod error;
mod input;
mod json;
mod kind;
mod model_toml;
pub mod packed;
mod pt2;
mod zip_archive;

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

pub use check::CheckError;
pub use config::ConfigError;
pub use error::ReadError;
pub use kind::Kind;
pub use model_toml::SketchError;
pub use pt2::ArchiveError;
pub use zip_archive::ZipError;

use vramfit_graph::model::Model;
use vramfit_graph::select::VariantFlags;

/// The most bytes of a file, decompressed; a 7-billion-parameter Llama of 32 layers has 1.8 MB.
const LENGTH_LIMIT: u64 = 512 << 20;

/// The most bytes of a `model.toml`.
const SKETCH_LIMIT: u64 = 1 << 20;

/// The most bytes of a `config.json`.
const CONFIG_LIMIT: usize = 1 << 20;

/// The first bytes of a zip archive.
const ZIP: [u8; 4] = *b"PK\x03\x04";

/// How many bytes of a file decide whether the rest is read.
const FIRST: u64 = 512;

/// Reads the model in the file at `path`. Its extension decides the format, else its first bytes.
pub fn read_file(path: impl AsRef<Path>) -> Result<Model, ReadError> {
    read_file_wanted(path.as_ref(), None)
}

/// The same for a caller that needs one variant only: the model of an archive or a capture has just the variant that the
/// flags choose. If no variant fits them, it has all, as from [`read_file`].
pub fn read_file_for(path: impl AsRef<Path>, flags: VariantFlags) -> Result<Model, ReadError> {
    read_file_wanted(path.as_ref(), Some(flags))
}

fn read_file_wanted(path: &Path, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let kind = Kind::of(path);
    let mut file = File::open(path).map_err(ReadError::Io)?;
    if kind == Kind::Sketch {
        return read_sketch_bytes(input::stored_bytes(file, SKETCH_LIMIT)?, kind);
    }
    let first = input::stored_bytes(file.by_ref().take(FIRST), FIRST)?;
    if first.starts_with(&ZIP) {
        return pt2::read(file, LENGTH_LIMIT, wanted);
    }
    if !input::may_be_object(&first) {
        // A device may be endless, and a pipe may hold a sketch.
        let is_text = first.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace());
        return match kind {
            Kind::Unknown if is_text => {
                read_sketch_bytes(input::stored_bytes(first.as_slice().chain(file), SKETCH_LIMIT)?, kind)
            }
            _ => Err(ReadError::NotAModel { found: input::describe(&first), needed: kind }),
        };
    }
    read_bytes_wanted(&input::stored_bytes(first.as_slice().chain(file), LENGTH_LIMIT)?, kind, wanted)
}

/// Reads the model in `bytes`: a capture, as `vramfit.capture` writes it or with its gzip layer taken off, or an archive of
/// `torch.export.save`, or the `config.json` of a Hugging Face model.
pub fn read_bytes(bytes: &[u8]) -> Result<Model, ReadError> {
    read_bytes_wanted(bytes, Kind::Unknown, None)
}

fn read_bytes_wanted(bytes: &[u8], kind: Kind, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    if bytes.starts_with(&ZIP) {
        return pt2::read(Cursor::new(bytes), LENGTH_LIMIT, wanted);
    }
    let text = input::text(bytes, LENGTH_LIMIT, kind)?;
    if text.len() < CONFIG_LIMIT
        && text.contains("\"model_type\"")
        && let Some(fields) = config::found(&text)
    {
        let model = config::read(&fields)?;
        check::check_model(&model)?;
        return Ok(model);
    }
    match capture::read(&text, wanted) {
        Err(ReadError::MissingKey { key: "format", .. }) => Err(ReadError::UnknownObject),
        result => result,
    }
}

fn read_sketch_bytes(bytes: Vec<u8>, needed: Kind) -> Result<Model, ReadError> {
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty { needed });
    }
    let text =
        String::from_utf8(bytes).map_err(|error| ReadError::NotText { offset: error.utf8_error().valid_up_to() })?;
    match read_sketch(&text) {
        // The name did not say it was a sketch: a TOML error would only confuse.
        Err(ReadError::Sketch(_)) if needed == Kind::Unknown && !text.contains("layers") => {
            Err(ReadError::NotAModel { found: input::describe(text.as_bytes()), needed })
        }
        result => result,
    }
}

/// Reads the sketch in `text`, as `model.toml` has it.
pub fn read_sketch(text: &str) -> Result<Model, ReadError> {
    let model = model_toml::read(text)?;
    check::check_model(&model)?;
    Ok(model)
}
