//! The flags of `web`.

use std::ffi::OsString;

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
}
