//! The flags of `gpus`, `top` and `serve`.

use std::path::PathBuf;

use clap::Args;

use crate::web_server::Listen;

/// Wider than any terminal.
const WIDEST_NAME: i64 = 4096;

/// The source of samples.
#[derive(Args, Debug)]
pub struct MachineOptions {
    /// Only these GPUs, by number, with commas between, in this order.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub id: Vec<usize>,
    /// Play a recorded machine, to try it without a GPU.
    #[arg(long, conflicts_with = "replay")]
    pub demo: bool,
    /// Play a recording that --record wrote. Lines that cannot be read are left out, with a warning.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Write every sample to a file, for --replay.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// `vramfit gpus`.
#[derive(Args, Debug)]
pub struct Gpus {
    /// Show all columns below but -f.
    #[arg(short = 'a', long)]
    pub show_all: bool,
    /// Show the commands of processes.
    #[arg(short = 'c', long)]
    pub show_cmd: bool,
    /// Show whole command lines, processor use and host memory of processes.
    #[arg(short = 'f', long)]
    pub show_full_cmd: bool,
    /// Show the users of processes.
    #[arg(short = 'u', long)]
    pub show_user: bool,
    /// Show the numbers of processes.
    #[arg(short = 'p', long)]
    pub show_pid: bool,
    /// Show the fan's speed.
    #[arg(short = 'F', long, alias = "show-fan")]
    pub show_fan_speed: bool,
    /// Show the use of the video encoder and decoder: enc, dec or enc,dec.
    #[arg(short = 'e', long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "enc,dec", value_parser = ["", "enc", "dec", "enc,dec", "dec,enc"])]
    pub show_codec: Option<String>,
    /// Show the power drawn and allowed: draw, limit or draw,limit.
    #[arg(short = 'P', long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "draw,limit", value_parser = ["", "draw", "limit", "draw,limit", "limit,draw"])]
    pub show_power: Option<String>,
    /// Show who uses the memory, and what of it is CUDA context.
    #[arg(short = 'm', long)]
    pub memory: bool,
    /// Go on, every second or so many (0.1 to 86400; 0 is once); with --json an object a line.
    #[arg(short = 'i', long, visible_alias = "watch", value_name = "SEC", num_args = 0..=1, default_missing_value = "1", allow_negative_numbers = true)]
    pub interval: Option<f64>,
    /// Leave out the line with host, time and driver.
    #[arg(long)]
    pub no_header: bool,
    /// Leave out processes.
    #[arg(long)]
    pub no_processes: bool,
    /// The width of GPU names; 0 leaves them out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=WIDEST_NAME))]
    pub gpuname_width: Option<u16>,
    /// The same as --color; with --no-color it is refused, as gpustat does.
    #[arg(long)]
    pub force_color: bool,
    /// Say on standard error why values are missing, and how long it took.
    #[arg(long)]
    pub debug: bool,
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// `vramfit top`.
#[derive(Args, Debug)]
pub struct Top {
    /// Seconds between samples, 0.1 to 86400.
    #[arg(short = 'i', long, value_name = "SEC", default_value_t = 1.0, allow_negative_numbers = true)]
    pub interval: f64,
    /// Never send signals to processes.
    #[arg(long)]
    pub readonly: bool,
    /// Show one's own processes only.
    #[arg(long)]
    pub mine: bool,
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// `vramfit serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// The address or name to listen on, with a port or without: 127.0.0.1, localhost, [::1]:9837, :9837 (everywhere).
    /// Any that others reach needs --token-file or --insecure.
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = Listen::parse)]
    pub listen: Listen,
    /// The port, 9837 if nothing else is said; 0 takes a free one and says which.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// A file whose first line is the token that clients must send as `Authorization: Bearer TOKEN`. The environment
    /// variable VRAMFIT_TOKEN does the same.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Serve on another address without a token: everyone who reaches it sees users and commands.
    #[arg(long)]
    pub insecure: bool,
    /// Add a series for each process to /metrics.
    #[arg(long)]
    pub per_process: bool,
    /// Seconds between samples, 0.1 to 86400.
    #[arg(short = 'i', long, value_name = "SEC", default_value_t = 1.0, allow_negative_numbers = true)]
    pub interval: f64,
    #[command(flatten)]
    pub machine: MachineOptions,
}
