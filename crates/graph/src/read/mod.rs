//! Reads models from files, one folder a format.
//!
//! ```no_run
//! let model = vramfit_graph::read::read_file("model.vramfit")?;
//! println!("{} operators", model.operators.len());
//! # Ok::<(), vramfit_graph::read::ReadError>(())
//! ```
//!
//! A file is data from anywhere: whatever it holds, reading it ends with a [`Model`] whose every reference is good, or
//! with a [`ReadError`] that says where it is not.

mod capture;
mod config;
mod error;
mod input;
mod json;
mod pt2;
mod toml;
mod zip;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;

pub use capture::CheckError;
pub(crate) use capture::check_model as check;
pub use config::ConfigError;
pub use error::ReadError;
pub use pt2::ArchiveError;
pub use toml::SketchError;
pub use zip::ZipError;

use crate::model::Model;
use crate::select::VariantFlags;

/// The bytes that are read of a file at most, decompressed; a 7-billion-parameter Llama of 32 layers has 1.8 MB.
const LENGTH_LIMIT: u64 = 512 << 20;

/// The bytes that are read of a `model.toml` at most.
const SKETCH_LIMIT: u64 = 1 << 20;

/// The bytes that a `config.json` has at most.
const CONFIG_LIMIT: usize = 1 << 20;

/// How a zip archive begins.
const ZIP: [u8; 4] = *b"PK\x03\x04";

/// Reads the model in the file at `path`: a sketch where its name ends in `.toml`, else whatever [`read_bytes`] reads.
pub fn read_file(path: impl AsRef<Path>) -> Result<Model, ReadError> {
    read_file_wanted(path.as_ref(), None)
}

/// The same for whoever needs one variant only: where the file is an archive or a capture, the model has no other than that
/// which the flags ask for. Where there is none for them it has all, as [`read_file`] gives it.
pub fn read_file_for(path: impl AsRef<Path>, flags: VariantFlags) -> Result<Model, ReadError> {
    read_file_wanted(path.as_ref(), Some(flags))
}

fn read_file_wanted(path: &Path, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let mut file = File::open(path).map_err(ReadError::Io)?;
    if path.extension().is_some_and(|ending| ending == "toml") {
        let bytes = input::stored_bytes(file, SKETCH_LIMIT)?;
        let text = String::from_utf8(bytes)
            .map_err(|error| ReadError::NotText { offset: error.utf8_error().valid_up_to() })?;
        return read_sketch(&text);
    }
    let mut first = [0; ZIP.len()];
    let is_zip = file.read(&mut first).map_err(ReadError::Io)? == ZIP.len() && first == ZIP;
    // A pipe cannot go back, and a capture may come from one.
    match is_zip {
        true => pt2::read(file, LENGTH_LIMIT, wanted),
        false => {
            let rest = match file.rewind() {
                Ok(()) => input::stored_bytes(file, LENGTH_LIMIT)?,
                Err(_) => input::stored_bytes(first.as_slice().chain(file), LENGTH_LIMIT)?,
            };
            read_bytes_wanted(&rest, wanted)
        }
    }
}

/// Reads the model in `bytes`: a capture, as `vramfit.capture` writes it or with its gzip layer taken off, or an archive of
/// `torch.export.save`, or the `config.json` of a Hugging Face model.
pub fn read_bytes(bytes: &[u8]) -> Result<Model, ReadError> {
    read_bytes_wanted(bytes, None)
}

fn read_bytes_wanted(bytes: &[u8], wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    if bytes.starts_with(&ZIP) {
        return pt2::read(Cursor::new(bytes), LENGTH_LIMIT, wanted);
    }
    let text = input::text(bytes, LENGTH_LIMIT)?;
    if text.len() < CONFIG_LIMIT
        && text.contains("\"model_type\"")
        && let Some(fields) = config::found(&text)
    {
        let model = config::read(&fields)?;
        check(&model)?;
        return Ok(model);
    }
    capture::read(&text, wanted)
}

/// Reads the sketch in `text`, as `model.toml` has it.
pub fn read_sketch(text: &str) -> Result<Model, ReadError> {
    let model = toml::read(text)?;
    check(&model)?;
    Ok(model)
}
