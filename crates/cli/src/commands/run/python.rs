//! Runs `python -m vramfit run` with the arguments of this process.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;

/// Where Python looks for the variable that names this program.
const BINARY: &str = "VRAMFIT_BINARY";

/// Has the Python of the active environment run the script; it asks this program for the answer.
pub fn run() -> Result<ExitStatus, Failure> {
    let python = find().ok_or_else(|| {
        Failure::new("run: found no Python, needed one with torch to run the script")
            .with_hint(Some("activate the environment in which the script runs"))
    })?;
    if !has_package(&python) {
        let hint = "activate the environment in which the script runs; if vramfit is not installed there, `pip install .` in its sources";
        return Err(Failure::new(format!(
            "{}: found no package vramfit in this Python, needed it to run the script",
            python.display()
        ))
        .with_hint(Some(hint)));
    }
    let mut command = Command::new(&python);
    command.args(["-m", "vramfit"]).args(env::args_os().skip(1));
    if let Ok(program) = env::current_exe()
        && env::var_os(BINARY).is_none()
    {
        command.env(BINARY, program);
    }
    let status = command.status().map_err(|error| Failure::at(python.display(), error))?;
    match status.code() {
        Some(0) => Ok(ExitStatus::Good),
        Some(1) => Ok(ExitStatus::Bad),
        Some(2) => std::process::exit(2),
        code => Err(Failure::new(format!("{}: ended with {code:?}", python.display()))),
    }
}

/// Whether this Python finds the package. Without it `python -m vramfit` ends with 1, which says "does not fit".
fn has_package(python: &Path) -> bool {
    // A folder of that name without Python files has a spec too, but no origin.
    let program = "import importlib.util, sys; found = importlib.util.find_spec('vramfit'); sys.exit(not (found and found.origin))";
    Command::new(python).args(["-c", program]).status().is_ok_and(|status| status.success())
}

/// The Python of the active environment, else the first in `PATH`.
fn find() -> Option<PathBuf> {
    let names: &[&str] = if cfg!(windows) { &["python.exe"] } else { &["python3", "python"] };
    let folder = if cfg!(windows) { "Scripts" } else { "bin" };
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os);
    let folders = environments.map(|root: OsString| PathBuf::from(root).join(folder));
    let path = env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = folders.chain(env::split_paths(&path)).collect();
    all.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name))).find(|file| file.is_file())
}
