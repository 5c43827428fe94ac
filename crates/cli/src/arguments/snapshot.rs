//! The flags of `explain` and `replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// A recorded snapshot.
#[derive(Args, Debug)]
pub struct SnapshotFile {
    /// A file written by `torch.cuda.memory._dump_snapshot`, plain or gzip, or by `vramfit run --out`.
    #[arg(value_name = "SNAPSHOT")]
    pub path: PathBuf,
    /// Index of the GPU in the recording [default: the first one used].
    #[arg(long, value_name = "N")]
    pub device: Option<usize>,
}

/// Settings that replace the recorded ones.
#[derive(Args, Debug)]
pub struct OtherSettings {
    /// Allocator settings in the syntax of PYTORCH_CUDA_ALLOC_CONF, instead of the recorded ones.
    #[arg(long, value_name = "STR")]
    pub alloc_conf: Option<String>,
    /// Limit on what PyTorch may reserve, such as 11GiB, as from set_per_process_memory_fraction.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
    /// The GPU's memory, such as 80GiB, for per_process_memory_fraction; a snapshot does not record it.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub gpu_memory: Option<u64>,
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

/// The point in time that `--summary` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SummaryAt {
    /// After the last event.
    End,
    /// At the peak of allocated memory.
    Peak,
}

/// `vramfit explain`.
#[derive(Args, Debug)]
pub struct Explain {
    #[command(flatten)]
    pub snapshot: SnapshotFile,
    /// Write a self-contained HTML page: findings, timeline, segments, holders of the peak.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The limit on what PyTorch could reserve, such as 11GiB, to explain an out-of-memory error; a snapshot does not
    /// record it.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
}
