//! The commands, one file each.

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
#[cfg(feature = "simulate")]
pub mod run;
pub mod serve;
pub mod top;
#[cfg(feature = "simulate")]
pub mod web;

use std::io::{self, Write};
use std::path::Path;

use vramfit_report::page::Origin;

use crate::failure::Failure;
use crate::whole_file;

/// Prints on standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(&mut anstream::stdout().lock(), text.as_bytes())
}

/// Writes bytes to standard output.
pub fn print_raw(bytes: &[u8]) -> Result<(), Failure> {
    write_out(&mut io::stdout().lock(), bytes)
}

fn write_out(stream: &mut impl Write, bytes: &[u8]) -> Result<(), Failure> {
    match stream.write_all(bytes).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::at("standard output", error)),
        _ => Ok(()),
    }
}

/// Prints JSON on standard output.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::at("JSON", error))?;
    print(&(text + "\n"))
}

/// The command line that made a page, with `paths` shortened to file names.
pub fn origin(paths: &[&str]) -> Origin {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    Origin::new(&words, paths, env!("CARGO_PKG_VERSION"))
}

/// Writes an HTML page atomically.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    whole_file::write(path, page.as_bytes())
        .map_err(|error| Failure::at(format!("{}: cannot write the page", path.display()), error))
}
