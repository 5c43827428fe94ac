//! The flags of `web`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::listen::ListenOptions;

/// `vramfit web`.
#[derive(Args, Debug)]
pub struct Web {
    /// The port [default: a free one, which is printed].
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
    #[command(flatten)]
    pub at: ListenOptions,
    /// The cuDNN to ask for the workspaces of convolutions, as for `estimate`.
    #[arg(long, value_name = "PATH|off", default_value = "off", value_hint = clap::ValueHint::AnyPath)]
    pub cudnn: OsString,
    /// Write the calculator into this folder instead of serving it: files for any web server, with the engine as a WebAssembly module that
    /// runs in the visitor's browser.
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with_all = ["port", "open", "listen", "token_file", "insecure", "cudnn"])]
    pub export: Option<PathBuf>,
    /// The WebAssembly module for --export, vramfit_browser.wasm [default: the one beside the program].
    #[arg(long, value_name = "FILE", requires = "export", value_hint = clap::ValueHint::FilePath)]
    pub engine: Option<PathBuf>,
    /// Let --export write into a folder with files in it.
    #[arg(long, requires = "export")]
    pub force: bool,
}
