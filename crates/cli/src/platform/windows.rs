//! Windows: console events, a console that takes escape sequences, file indices.

use std::env;
use std::io;
use std::os::windows::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ratatui::crossterm::ansi_support::supports_ansi;
use ratatui::crossterm::terminal;

use super::control::{ControlSignal, WatchedSignals};

/// Whether a program can be suspended from its terminal.
pub const CAN_PAUSE: bool = false;
/// The command that runs Python.
pub const PYTHON: &str = "python";
/// Whether a cuDNN is looked for if none is named. Asking was never tried on Windows.
pub const SEARCHES_CUDNN: bool = false;
/// The missing variables when there is no folder for settings, for error messages.
pub const CONFIG_VARIABLES: &str = "neither XDG_CONFIG_HOME nor APPDATA";

/// From now on Ctrl-C, Ctrl-Break and the closing of the console do not end the program at once; instead `notify` is called.
/// Windows has no other signals.
pub fn watch(
    _watched: WatchedSignals,
    mut notify: impl FnMut(ControlSignal) -> bool + Send + 'static,
) -> io::Result<()> {
    let handler = move || {
        // Whoever does not listen any more is ending already.
        notify(ControlSignal::End);
    };
    ctrlc::set_handler(handler).map_err(io::Error::other)
}

/// Opens an address in the user's browser.
pub fn open_in_browser(address: &str) -> io::Result<()> {
    super::launch(Command::new("rundll32").arg("url.dll,FileProtocolHandler").arg(address))
}

/// Windows cannot suspend a program.
pub fn pause() -> io::Result<()> {
    Ok(())
}

/// Whether the console does not support escape sequences: before Windows 10, or if TERM says so. Enables them.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_some_and(|term| term == "dumb") || !supports_ansi()
}

/// Columns and lines of the console, where there is one.
pub fn output_size() -> Option<(usize, usize)> {
    let (columns, lines) = terminal::size().ok()?;
    (columns > 0 && lines > 0).then(|| (columns.into(), lines.into()))
}

/// Columns of the console, where there is one.
pub fn error_columns() -> Option<usize> {
    output_size().map(|(columns, _)| columns)
}

/// A console has no foreground process.
pub fn is_in_background() -> bool {
    false
}

/// Whether two paths are the same file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    same_file::is_same_file(one, other).unwrap_or(false)
}

/// A child process without a console gets no console events.
pub fn keep_from_signals(command: &mut Command) {
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    command.creation_flags(CREATE_NO_WINDOW);
}

/// The folder for what can be made again.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"))
}

/// The folder of the user's settings.
pub fn config_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CONFIG_HOME").or_else(|| folder("APPDATA"))
}
