//! The command line: every flag in one place.

use std::path::PathBuf;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Will it fit, where does the memory go, and what is the cheapest change that makes it fit.
///
/// Exit codes: 0 when it is done and fits, is clean, or some plan fits; 1 when it is done and does not fit, is too
/// close, or has findings; 2 for bad usage or bad input.
#[derive(Debug, Parser)]
#[command(name = "vramfit", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub output: Output,
}

/// What every command takes.
#[derive(Args, Debug)]
pub struct Output {
    /// Print JSON instead of text; sizes are whole bytes.
    #[arg(long, global = true)]
    pub json: bool,
    /// Colour the text; without a value: always.
    #[arg(long, global = true, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
    pub color: When,
    /// Do not colour the text; the same as --color=never.
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// When text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Output {
    /// Tells the streams whether to let colours through.
    pub fn apply_color(&self) {
        let choice = match self.color {
            _ if self.no_color => ColorChoice::Never,
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay a recorded CUDA memory snapshot through the allocator, and ask what other settings would have done.
    Replay(Replay),
    /// Say what a recorded run did with its memory: the peak and who held it, leaks, graphs kept, spikes,
    /// fragmentation, and why an allocation failed.
    ///
    /// Exit code 1 when anything is found, a spike included.
    Explain(Explain),
}

/// A recorded snapshot.
#[derive(Args, Debug)]
pub struct SnapshotFile {
    /// What `torch.cuda.memory._dump_snapshot` wrote, plain or gzip.
    #[arg(value_name = "SNAPSHOT")]
    pub path: PathBuf,
    /// Which GPU of the recording, by number; without it the first that was used.
    #[arg(long, value_name = "N")]
    pub device: Option<usize>,
}

/// Other settings than the recorded ones.
#[derive(Args, Debug)]
pub struct OtherSettings {
    /// Allocator settings in the syntax of PYTORCH_CUDA_ALLOC_CONF, instead of the recorded ones.
    #[arg(long, value_name = "STR")]
    pub alloc_conf: Option<String>,
    /// The most PyTorch may reserve, such as 11GiB, as from set_per_process_memory_fraction.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
}

/// `vramfit replay`.
#[derive(Args, Debug)]
pub struct Replay {
    #[command(flatten)]
    pub snapshot: SnapshotFile,
    #[command(flatten)]
    pub settings: OtherSettings,
    /// Print PyTorch's memory_summary() of the replay, at its end or at its peak.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "end")]
    pub summary: Option<SummaryAt>,
}

/// The instant `--summary` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryAt {
    /// After the last event.
    End,
    /// When the most was allocated.
    Peak,
}

/// `vramfit explain`.
#[derive(Args, Debug)]
pub struct Explain {
    #[command(flatten)]
    pub snapshot: SnapshotFile,
    /// Write a page with the memory's timeline, its segments and the findings; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The most PyTorch could reserve, such as 11GiB: a snapshot does not tell it, and an out-of-memory error is judged
    /// by it.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
}
