//! Linux and macOS: signals, job control, device and inode numbers.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::{Signal, getpgrp, getpid, kill_process};
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use super::{Asked, Watched};

/// Whether a program can be stopped for a while from its terminal.
pub const CAN_PAUSE: bool = true;
/// What Python is called.
pub const PYTHON: &str = "python3";
/// The variables that name a folder for settings.
pub const CONFIG_VARIABLES: &str = "neither XDG_CONFIG_HOME nor HOME";

/// From here on Ctrl-C, Ctrl-\, TERM and HUP, and what else is watched, do not end or stop the program; `tell` hears of
/// them until it returns `false`.
pub fn watch(watched: Watched, mut tell: impl FnMut(Asked) -> bool + Send + 'static) -> io::Result<()> {
    let more: &[i32] = match watched {
        Watched::Ends => &[],
        Watched::Pauses => &[SIGTSTP],
        Watched::All => &[SIGTSTP, SIGCONT],
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT].iter().chain(more))?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let asked = match signal {
                SIGTSTP => Asked::Pause,
                SIGCONT => Asked::Resume,
                _ => Asked::End,
            };
            if !tell(asked) {
                return;
            }
        }
    });
    Ok(())
}

/// Stops this program until the shell goes on with it.
pub fn pause() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

/// Whether the terminal takes no escape sequences: TERM is `dumb`, empty or not set.
pub fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

/// Columns and lines of standard output, where it is a terminal that tells.
pub fn output_size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Columns of standard error, where it is a terminal that tells.
pub fn error_columns() -> Option<usize> {
    tcgetwinsize(io::stderr()).ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0)
}

/// Whether the terminal belongs to other processes now: it then stops whoever changes its settings.
pub fn is_in_background() -> bool {
    // A terminal that is not this session's stops nobody.
    tcgetpgrp(io::stdout()).is_ok_and(|foreground| foreground != getpgrp())
}

/// Whether two paths are one file. Nothing is opened: a pipe may be among them.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|data| (data.dev(), data.ino()));
    place(one).is_some() && place(one) == place(other)
}

/// Where a user's settings are kept.
pub fn config_folder() -> Option<PathBuf> {
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))
}
