//! `vramfit-validate`: prints a table of answers beside measurements, or writes it into `docs/`.

use std::path::Path;
use std::process::ExitCode;

use vramfit_validation::{allocator, caps, estimate};

const USAGE: &str =
    "usage: vramfit-validate allocator [--write] | estimate [2 | --write] | caps [--write] | trace CASE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["allocator"] => allocator::page().map(|text| print!("{text}")),
        ["allocator", "--write"] => allocator::page().and_then(|text| write("allocator-accuracy.md", &text)),
        ["estimate"] => estimate::overview(1).map(|text| print!("{text}")),
        ["estimate", "2"] => estimate::overview(2).map(|text| print!("{text}")),
        ["estimate", "--write"] => estimate::page().and_then(|text| write("estimate-accuracy.md", &text)),
        ["caps"] => caps::page().map(|text| print!("{text}")),
        ["caps", "--write"] => caps::page().and_then(|text| write("cap-accuracy.md", &text)),
        ["trace", case] => estimate::difference_of(case).map(|text| print!("{text}")),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn write(name: &str, text: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
