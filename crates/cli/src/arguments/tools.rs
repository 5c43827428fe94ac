//! The flags of `calibrate`, `completions` and `man`.

use std::path::PathBuf;

use clap::Args;

/// `vramfit completions`.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell to complete for.
    pub shell: clap_complete::Shell,
}

/// `vramfit man`.
#[derive(Args, Debug)]
pub struct Man {
    /// Folder for vramfit.1 and a page for each command, such as ~/.local/share/man/man1; created if it does not exist.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}

/// `vramfit calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// A Python with torch installed.
    #[arg(long, value_name = "PROGRAM", default_value = crate::platform::PYTHON)]
    pub python: String,
    /// CUDA device index.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,
    /// File for the measurements [default: in the user's configuration folder, where estimates look].
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
