//! One file a command.

pub mod calibrate;
pub mod catalogue;
pub mod completions;
#[cfg(feature = "simulate")]
pub mod estimate;
pub mod explain;
pub mod gpus;
#[cfg(feature = "simulate")]
pub mod layers;
pub mod lint;
pub mod man;
#[cfg(feature = "simulate")]
pub mod models;
#[cfg(feature = "simulate")]
pub mod plan;
pub mod replay;
pub mod serve;
pub mod top;

use std::io::{self, Write};
use std::path::Path;

use vramfit_report::page::Origin;

use crate::failure::Failure;
use crate::whole_file;

/// Prints a result on standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(&mut anstream::stdout().lock(), text.as_bytes())
}

/// Writes bytes on standard output as they are.
pub fn print_raw(bytes: &[u8]) -> Result<(), Failure> {
    write_out(&mut io::stdout().lock(), bytes)
}

fn write_out(stream: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::at("standard output", error)),
        _ => Ok(()),
    }
}

/// Prints a result as JSON.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::at("JSON", error))?;
    print(&(text + "\n"))
}

/// How a page comes about: this command, with `paths` by their files' names alone.
pub fn origin(paths: &[&str]) -> Origin {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    Origin::new(&words, paths, env!("CARGO_PKG_VERSION"))
}

/// Writes a page of HTML, whole or not at all.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    whole_file::write(path, page.as_bytes())
        .map_err(|error| Failure::at(format!("{}: the page could not be written", path.display()), error))
}
