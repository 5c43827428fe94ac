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

pub use control::{ControlSignal, WatchedSignals};
pub use held_process::{HeldProcess, KillSignal};
pub use system::{
    CAN_PAUSE, CONFIG_VARIABLES, PYTHON, SEARCHES_CUDNN, cache_folder, config_folder, error_columns, is_dumb,
    is_in_background, is_same_file, keep_from_signals, output_size, pause, watch,
};
