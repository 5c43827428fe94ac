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
mod error;
mod input;

use std::fs::File;
use std::path::Path;

pub use error::ReadError;

use crate::model::Model;

/// The bytes that are read of a file at most, decompressed; a 7-billion-parameter Llama of 32 layers has 1.8 MB.
const LENGTH_LIMIT: u64 = 512 << 20;

/// Reads the model in the file at `path`.
pub fn read_file(path: impl AsRef<Path>) -> Result<Model, ReadError> {
    let file = File::open(path).map_err(ReadError::Io)?;
    read_bytes(&input::stored_bytes(file, LENGTH_LIMIT)?)
}

/// Reads the model in `bytes`: a capture, as `vramfit.capture` writes it or with its gzip layer taken off.
pub fn read_bytes(bytes: &[u8]) -> Result<Model, ReadError> {
    capture::read(&input::text(bytes, LENGTH_LIMIT)?)
}
