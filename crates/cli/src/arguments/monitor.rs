//! The flags of `gpus`, `top` and `serve`.

use std::path::PathBuf;

use clap::Args;

use super::listen::ListenOptions;

/// Wider than any terminal.
const WIDEST_NAME: i64 = 4096;

/// The source of samples.
#[derive(Args, Debug)]
pub struct MachineOptions {
    /// Only these GPUs, by index, separated by commas, in this order.
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub id: Vec<usize>,
    /// Replay a recorded machine, to try it without a GPU.
    #[arg(long, conflicts_with = "replay")]
    pub demo: bool,
    /// Replay a recording written by --record. Malformed lines are skipped with a warning.
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Write every sample to a file, for --replay.
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
}

/// `vramfit gpus`.
#[derive(Args, Debug)]
pub struct Gpus {
    /// Show all columns below except -f.
    #[arg(short = 'a', long)]
    pub show_all: bool,
    /// Show the commands of processes.
    #[arg(short = 'c', long)]
    pub show_cmd: bool,
    /// Show full command lines, CPU use and host memory of processes.
    #[arg(short = 'f', long)]
    pub show_full_cmd: bool,
    /// Show the users of processes.
    #[arg(short = 'u', long)]
    pub show_user: bool,
    /// Show the PIDs of processes.
    #[arg(short = 'p', long)]
    pub show_pid: bool,
    /// Show the fan speed.
    #[arg(short = 'F', long, alias = "show-fan")]
    pub show_fan_speed: bool,
    /// Show the use of the video encoder and decoder: enc, dec or enc,dec.
    #[arg(short = 'e', long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "enc,dec", value_parser = ["", "enc", "dec", "enc,dec", "dec,enc"])]
    pub show_codec: Option<String>,
    /// Show power draw and limit: draw, limit or draw,limit.
    #[arg(short = 'P', long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "draw,limit", value_parser = ["", "draw", "limit", "draw,limit", "limit,draw"])]
    pub show_power: Option<String>,
    /// Show memory by process, and how much of it is CUDA context.
    #[arg(short = 'm', long)]
    pub memory: bool,
    /// Repeat every SEC seconds (0.1 to 86400; 0 prints once); with --json, one object per line.
    #[arg(short = 'i', long, visible_alias = "watch", value_name = "SEC", num_args = 0..=1, default_missing_value = "1", allow_negative_numbers = true)]
    pub interval: Option<f64>,
    /// Omit the line with host, time and driver.
    #[arg(long)]
    pub no_header: bool,
    /// Omit processes.
    #[arg(long)]
    pub no_processes: bool,
    /// The width of GPU names; 0 omits them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(..=WIDEST_NAME))]
    pub gpuname_width: Option<u16>,
    /// The same as --color; conflicts with --no-color, as in gpustat.
    #[arg(long)]
    pub force_color: bool,
    /// Print on standard error why values are missing, and how long the query took.
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
    /// Show only your own processes.
    #[arg(long)]
    pub mine: bool,
    #[command(flatten)]
    pub machine: MachineOptions,
}

/// `vramfit serve`.
#[derive(Args, Debug)]
pub struct Serve {
    #[command(flatten)]
    pub at: ListenOptions,
    /// The port [default: 9837]; 0 chooses a free port and prints it.
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// Add a time series for each process to /metrics.
    #[arg(long)]
    pub per_process: bool,
    /// Seconds between samples, 0.1 to 86400.
    #[arg(short = 'i', long, value_name = "SEC", default_value_t = 1.0, allow_negative_numbers = true)]
    pub interval: f64,
    #[command(flatten)]
    pub machine: MachineOptions,
}
