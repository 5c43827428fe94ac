//! What differs between operating systems: signals, the terminal, files' identities, folders, and ending a process. Each
//! system's file has the same names in it.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
use unix as system;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
use windows as system;

mod held_process;

pub use held_process::{HeldProcess, Order};
pub use system::{
    CAN_PAUSE, CONFIG_VARIABLES, PYTHON, config_folder, error_columns, is_dumb, is_in_background, is_same_file,
    output_size, pause, watch,
};

/// What somebody asks of this program from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To stop until the shell goes on.
    Pause,
    /// To go on.
    Resume,
    /// To end.
    End,
}

/// What of it is told; the rest is done as ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// Ends.
    Ends,
    /// Ends and pauses.
    Pauses,
    /// All of it.
    All,
}
