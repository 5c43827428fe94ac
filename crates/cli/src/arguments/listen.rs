//! The flags of commands that answer over the network.

use std::path::PathBuf;

use clap::Args;
use vramfit_web::server::Listen;

/// Where to listen, and whom to answer.
#[derive(Args, Debug)]
pub struct ListenOptions {
    /// The address or name to listen on, with or without a port: 127.0.0.1, localhost, [::1]:9837, :9837 (all
    /// interfaces). An address that other machines can reach needs --token-file or --insecure.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = Listen::parse)]
    pub listen: Listen,
    /// A file whose first line is the token that clients must send as `Authorization: Bearer TOKEN`. Alternatively, set
    /// the environment variable VRAMFIT_TOKEN.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Serve on an open address without a token, to everyone who can reach it.
    #[arg(long)]
    pub insecure: bool,
}
