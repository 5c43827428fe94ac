//! What differs between operating systems: signals, the terminal, file identity, folders, and ending a process. Each
//! system's file has the same names in it.

mod control;

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

mod held_process;

use std::io;
use std::process::{Command, Stdio};
use std::thread;

pub use control::{ControlSignal, WatchedSignals};
pub use held_process::{HeldProcess, KillSignal};
pub use system::{
    CAN_PAUSE, CONFIG_VARIABLES, PYTHON, SEARCHES_CUDNN, cache_folder, config_folder, error_columns, is_dumb,
    is_in_background, is_same_file, keep_from_signals, open_in_browser, output_size, pause, watch,
};

/// Starts a program that goes on by itself; what it prints is not shown.
fn launch(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
    // Whoever does not wait for a child leaves an entry in the process table.
    thread::spawn(move || child.wait());
    Ok(())
}
