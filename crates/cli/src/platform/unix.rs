//! Linux and macOS: signals, job control, device and inode numbers.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::control::{ControlSignal, WatchedSignals};

/// Whether a program can be suspended from its terminal.
pub const CAN_PAUSE: bool = true;
/// The command that runs Python.
pub const PYTHON: &str = "python3";
/// Whether a cuDNN is looked for if none is named. NVIDIA has none for macOS.
pub const SEARCHES_CUDNN: bool = cfg!(target_os = "linux");
/// The missing variables when there is no folder for settings, for error messages.
pub const CONFIG_VARIABLES: &str = "neither XDG_CONFIG_HOME nor HOME";

/// From now on INT, QUIT, TERM, HUP and the other watched signals do not end or suspend the program; instead `notify` is
/// called, until it returns `false`.
pub fn watch(
    watched: WatchedSignals,
    mut notify: impl FnMut(ControlSignal) -> bool + Send + 'static,
) -> io::Result<()> {
    let more: &[i32] = match watched {
        WatchedSignals::Ends => &[],
        WatchedSignals::Pauses => &[SIGTSTP],
        WatchedSignals::All => &[SIGTSTP, SIGCONT],
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT].iter().chain(more))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTSTP => ControlSignal::Pause,
                SIGCONT => ControlSignal::Resume,
                _ => ControlSignal::End,
            };
            if !notify(signal) {
                return;
            }
        }
    });
    Ok(())
}

/// Opens an address in the user's browser.
pub fn open_in_browser(address: &str) -> io::Result<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    super::launch(Command::new(program).arg(address))
}

/// Suspends this program until the shell continues it.
pub fn pause() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Whether the terminal does not support escape sequences: TERM is `dumb`, empty or not set.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Columns and lines of standard output, if it is a terminal that reports them.
pub fn output_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Columns of standard error, if it is a terminal that reports them.
pub fn error_columns() -> Option<usize> {
    tcgetwinsize(io::stderr()).ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Whether another process group has the terminal's foreground: changing its settings would suspend this one.
pub fn is_in_background() -> bool {
    // The terminal of another session does not suspend anyone.
    tcgetpgrp(io::stdout()).is_ok_and(|foreground| foreground != getpgrp())
}

/// Whether two paths are the same file. They are not opened, because one may be a pipe.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    identity(one).is_some() && identity(one) == identity(other)
}

/// Starts a child process in a process group of its own: Ctrl-C in the terminal ends this program, not its child.
pub fn keep_from_signals(command: &mut Command) {
    command.process_group(0);
}

/// The folder for what can be made again.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))
}

/// The folder of the user's settings.
pub fn config_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))
}
