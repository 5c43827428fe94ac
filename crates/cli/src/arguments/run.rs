//! The flags of `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// `vramfit run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// The script, and its own arguments.
    #[arg(value_name = "SCRIPT", trailing_var_arg = true, allow_hyphen_values = true, required_unless_present_any = ["recording", "describe_gpu"], value_hint = clap::ValueHint::FilePath)]
    pub script: Vec<OsString>,
    /// Stop after so many optimizer steps [default: when memory has repeated, at most 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Go on until the script ends, so that an evaluation after the training is seen too.
    #[arg(long)]
    pub through_eval: bool,
    /// Run the first of so many ranks of a script for several GPUs (DistributedDataParallel).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub world: Option<u32>,
    /// Write the recording, for `vramfit run --recording`.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Answer from a recording that was written with --out, instead of running a script.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "steps", "through_eval", "world", "out"])]
    pub recording: Option<PathBuf>,
    /// The recording is removed afterwards.
    #[arg(long, hide = true)]
    pub temporary: bool,
    /// The words after `run` that the recording was made with: flags, script and the script's arguments.
    #[arg(long, hide = true, value_name = "WORD", allow_hyphen_values = true)]
    pub recorded_with: Vec<String>,
    /// Write the simulated run as a snapshot, as torch.cuda.memory._dump_snapshot does, for pytorch.org/memory_viz,
    /// `vramfit explain` and `vramfit replay`.
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Show phases, holders of the peak and all notes too.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print what a script may ask about the GPU.
    #[arg(long, hide = true)]
    pub describe_gpu: bool,
    /// Write a self-contained HTML page: verdict, breakdown of the peak, timeline.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The GPU, such as "RTX 3060". Its memory is the limit, and its architecture decides what libraries allocate.
    /// `vramfit catalogue` lists all names.
    #[arg(long, value_name = "NAME", value_hint = clap::ValueHint::Other)]
    pub gpu: Option<String>,
    /// Limit on what PyTorch may reserve, such as 11GiB, instead of the GPU's memory.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
    /// Allocator settings in the syntax of PYTORCH_CUDA_ALLOC_CONF.
    #[arg(long, value_name = "STR")]
    pub alloc_conf: Option<String>,
    /// The cuDNN to ask for the workspaces of convolutions, as `estimate` has it, or `off`.
    #[arg(long, value_name = "PATH|off", value_hint = clap::ValueHint::AnyPath)]
    pub cudnn: Option<OsString>,
}
