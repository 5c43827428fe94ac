//! Windows: console events, a console that takes escape sequences, file indices.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use ratatui::crossterm::ansi_support::supports_ansi;
use ratatui::crossterm::terminal;

use super::{Asked, Watched};

/// Whether a program can be stopped for a while from its terminal.
pub const CAN_PAUSE: bool = false;
/// What Python is called.
pub const PYTHON: &str = "python";
/// The variables that name a folder for settings.
pub const CONFIG_VARIABLES: &str = "neither XDG_CONFIG_HOME nor APPDATA";

/// From here on Ctrl-C, Ctrl-Break and the closing of the console do not end the program at once; `tell` hears of them.
/// There are no others.
pub fn watch(_watched: Watched, mut tell: impl FnMut(Asked) -> bool + Send + 'static) -> io::Result<()> {
    let handler = move || {
        // Whoever does not listen any more is ending already.
        tell(Asked::End);
    };
    ctrlc::set_handler(handler).map_err(io::Error::other)
}

/// Windows stops no program for a while.
pub fn pause() -> io::Result<()> {
    Ok(())
}

/// Whether the console takes no escape sequences: before Windows 10, or where TERM says so. It is asked to take them.
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

/// A console belongs to all who write to it.
pub fn is_in_background() -> bool {
    false
}

/// Whether two paths are one file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    same_file::is_same_file(one, other).unwrap_or(false)
}

/// Where a user's settings are kept.
pub fn config_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CONFIG_HOME").or_else(|| folder("APPDATA"))
}
