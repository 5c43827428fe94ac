//! One file a command.

pub mod calibrate;
pub mod catalogue;
pub mod estimate;
pub mod explain;
pub mod gpus;
pub mod layers;
pub mod lint;
pub mod models;
pub mod plan;
pub mod replay;
pub mod serve;
pub mod top;

use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;
use crate::whole_file;

/// Prints a result on standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a result as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(format!("JSON: {error}")))?;
    print(&(text + "\n"))
}

/// Writes a page of HTML, whole or not at all.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    whole_file::write(path, page.as_bytes())
        .map_err(|error| Failure::new(format!("{}: the page could not be written: {error}", path.display())))
}
