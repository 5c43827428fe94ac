//! The command line: every flag in one place.

pub mod monitor;

use std::path::PathBuf;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

/// For the manual; `vramfit --help` has them in a line.
const EXIT_CODES: &str = "Exit codes: 0 when it is done and fits, is clean, or some plan fits; 1 when it is done and \
                          does not fit, is too close, or has findings; 2 for bad usage or bad input.";

/// Headings for the flags of a training in its help.
#[cfg(feature = "simulate")]
const MODEL: &str = "Model";
#[cfg(feature = "simulate")]
const TRAINING: &str = "Training";
#[cfg(feature = "simulate")]
const GPU: &str = "GPU";

/// Will it fit, where does the memory go, which change makes it fit most cheaply?
#[derive(Debug, Parser)]
#[command(name = "vramfit", bin_name = "vramfit", version, max_term_width = 80, arg_required_else_help = true, after_help = EXIT_CODES)]
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
    pub fn apply_color(&self) -> Result<(), Failure> {
        if self.no_color && self.color == When::Always {
            return Err(Failure::new("--color and --no-color contradict each other"));
        }
        let choice = match self.color {
            _ if self.no_color => ColorChoice::Never,
            When::Auto => ColorChoice::Auto,
            When::Always => ColorChoice::Always,
            When::Never => ColorChoice::Never,
        };
        choice.write_global();
        Ok(())
    }
}

/// What to do. The first line of each is its line in `vramfit --help`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Predict what a training run will take, without a GPU.
    ///
    /// Three training steps are simulated operator by operator, the allocator block by block: what is allocated and
    /// reserved in each phase, what the peak is made of and who holds it. As torch 2.11 does on an H200 unless --gpu
    /// names another.
    #[cfg(feature = "simulate")]
    Estimate(Box<Estimate>),
    /// Find the cheapest changes that make a training fit.
    ///
    /// Every candidate is simulated as `estimate` does; the flags are the settings to start from. The answer has the
    /// code to paste. Ctrl-C gives the best that was found until then.
    #[cfg(feature = "simulate")]
    Plan(Box<Plan>),
    /// Print the largest batch such that all up to it fit.
    ///
    /// With the given settings; 0 and exit code 1 where not even a batch of 1 fits.
    #[cfg(feature = "simulate")]
    MaxBatch(Box<MaxBatch>),
    /// Show a model module by module: sizes, weights, FLOPs.
    ///
    /// Output shape, weights, bytes of the output, bytes saved for backward, FLOPs as
    /// torch.utils.flop_counter.FlopCounterMode counts them.
    #[cfg(feature = "simulate")]
    Layers(Layers),
    /// List the models that need no file.
    #[cfg(feature = "simulate")]
    Models,
    /// List the known GPUs and what they have.
    ///
    /// Memory, bandwidth, FLOP/s, what of PyTorch runs there.
    Catalogue,
    /// Say what a recorded run did with its memory, and why.
    ///
    /// The peak and who held it, leaks, graphs kept, spikes, fragmentation, and why an allocation failed. Exit code 1
    /// when anything is found, a spike included.
    Explain(Explain),
    /// Replay a recorded run under other allocator settings.
    ///
    /// Without other settings it shows whether the allocator explains the recording block for block.
    Replay(Replay),
    /// Show what is on the GPUs now, as gpustat does.
    ///
    /// gpustat's lines, flags and JSON, in milliseconds.
    Gpus(monitor::Gpus),
    /// Watch the GPUs and their processes full screen.
    Top(monitor::Top),
    /// Serve metrics and a page about the GPUs over HTTP.
    ///
    /// Prometheus metrics at /metrics, JSON at /api/gpus and /api/history.
    Serve(monitor::Serve),
    /// Measure this machine's GPU for exact estimates.
    ///
    /// Its CUDA context and cuBLAS's workspaces, by a short Python script with torch.
    Calibrate(Calibrate),
    /// Find habits that waste GPU memory in Python sources.
    ///
    /// Exit code 1 when anything is found, 2 when a file could not be read or parsed.
    Lint(Lint),
    /// Print the completions for a shell.
    ///
    /// For bash: vramfit completions bash > ~/.local/share/bash-completion/completions/vramfit
    Completions(Completions),
    /// Print the manual, or write a page for each command.
    ///
    /// To read a page: vramfit man | man -l -
    Man(Man),
}

/// `vramfit completions`.
#[derive(Args, Debug)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `vramfit man`.
#[derive(Args, Debug)]
pub struct Man {
    /// Where to write vramfit.1 and a page for each command, such as ~/.local/share/man/man1; it is made if it is not
    /// there.
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub folder: Option<PathBuf>,
}

/// `vramfit layers`.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct Layers {
    #[command(flatten)]
    pub model: ModelAt,
    /// How deep modules are shown; 0 is the model itself.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub depth: usize,
    /// The optimizer of the rule of thumb that is shown beside the simulated peak.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = crate::commands::estimate::optimizers())]
    pub optimizer: crate::commands::estimate::OptimizerName,
    /// What is checkpointed: none, blocks, sequential:N, or module names with commas between.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = crate::commands::estimate::parse_checkpoint)]
    pub checkpoint: crate::commands::estimate::CheckpointChoice,
    /// What to add where the model returns no loss; without it, cross-entropy.
    #[arg(long, value_enum, value_name = "KIND")]
    pub loss: Option<LossKind>,
}

/// `vramfit calibrate`.
#[derive(Args, Debug)]
pub struct Calibrate {
    /// The Python that has torch.
    #[arg(long, value_name = "PROGRAM", default_value = crate::platform::PYTHON)]
    pub python: String,
    /// Which GPU, by CUDA's number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub device: u32,
    /// Where to write what was measured; without it, the user's configuration folder, where estimates look.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
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
    /// The GPU's memory, such as 80GiB, of which per_process_memory_fraction is a part; a snapshot does not record it.
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

/// The instant `--summary` shows.
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
    /// Write one page to mail: findings, timeline, segments, who holds the peak; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The most PyTorch could reserve, such as 11GiB: a snapshot does not record it, and an out-of-memory error is judged
    /// by it.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse)]
    pub vram: Option<u64>,
}

/// `vramfit lint`.
#[derive(Args, Debug)]
pub struct Lint {
    /// Files and folders; `-` reads standard input. Folders are searched for Python files and notebooks that git does
    /// not ignore.
    #[arg(value_name = "PATH", default_value = ".")]
    pub paths: Vec<PathBuf>,
    /// The output format.
    #[arg(long, value_enum, default_value_t = LintFormat::Text)]
    pub format: LintFormat,
    /// Use these rules instead of the defaults: codes, prefixes of codes, or ALL, separated by commas.
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub select: Option<Vec<String>>,
    /// Do not use these rules.
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    pub ignore: Vec<String>,
    /// Fix what can be fixed without changing what the program computes.
    #[arg(long)]
    pub fix: bool,
    /// With --fix or --diff, also apply fixes that may change what the program computes.
    #[arg(long)]
    pub unsafe_fixes: bool,
    /// Show what --fix would change, and change nothing.
    #[arg(long, conflicts_with = "fix")]
    pub diff: bool,
    /// Print the page of a rule; without a code, list all rules.
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "all")]
    pub explain: Option<String>,
    /// Count findings by rule instead of showing them.
    #[arg(long)]
    pub statistics: bool,
    /// The name under which standard input is checked.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub stdin_filename: PathBuf,
}

/// The output format of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LintFormat {
    /// For people: a line, the source, what it costs.
    Text,
    /// A list of objects; the same as --json.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// Annotations for GitHub Actions.
    Github,
}

/// A model at sizes, in a precision and a mode.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct ModelAt {
    /// A capture: what vramfit.capture(model, inputs, "model.vramfit") wrote; a name that `vramfit models` lists; a .pt2 of
    /// torch.export.save; a config.json of Hugging Face; a model.toml, which lists layers.
    #[arg(value_name = "MODEL", value_hint = clap::ValueHint::FilePath)]
    pub model: String,
    /// The batch: every symbol in the first dimension of an input or target.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = MODEL)]
    pub batch: Option<i64>,
    /// The sequence: every symbol in the second dimension of an integer input.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = MODEL)]
    pub seq: Option<i64>,
    /// Any other size: SYMBOL=N, or INPUT=AxBxC for all of an input's.
    #[arg(long, value_name = "SIZE", help_heading = MODEL)]
    pub size: Vec<String>,
    /// Cast the whole model; without it, as it was built.
    #[arg(long, value_enum, help_heading = MODEL)]
    pub dtype: Option<Precision>,
    /// Train under autocast; fp16 brings a GradScaler.
    #[arg(long, value_enum, value_name = "DTYPE", help_heading = MODEL)]
    pub amp: Option<HalfPrecision>,
    /// Train, or evaluate under no_grad.
    #[arg(long, value_enum, default_value_t = ModeKind::Train, help_heading = MODEL)]
    pub mode: ModeKind,
    /// In evaluation, keep the graph.
    #[arg(long, help_heading = MODEL)]
    pub grad: bool,
}

/// A training run: the model, what the loop does, the GPU.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct RunSettings {
    #[command(flatten)]
    pub at: ModelAt,
    /// The optimizer, with torch.optim's default arguments.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = crate::commands::estimate::optimizers(), help_heading = TRAINING)]
    pub optimizer: crate::commands::estimate::OptimizerName,
    /// How it goes over the weights; default is what torch.optim chooses on CUDA.
    #[arg(long, value_name = "HOW", default_value = "default", value_parser = crate::commands::estimate::implementations(), help_heading = TRAINING)]
    pub optimizer_impl: crate::commands::estimate::ImplementationName,
    /// The optimizer is given a weight_decay, which is added to the gradients. AdamW's own needs no memory.
    #[arg(long, help_heading = TRAINING)]
    pub weight_decay: bool,
    /// Clip gradients with clip_grad_norm_ before the step.
    #[arg(long, help_heading = TRAINING)]
    pub clip_grad: bool,
    /// torch.backends.cudnn.benchmark = True: all plans of a convolution are tried. Widens the range.
    #[arg(long, help_heading = TRAINING)]
    pub cudnn_benchmark: bool,
    /// Whether the inputs are kept on the GPU or copied there each step.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputsAre::Kept, help_heading = TRAINING)]
    pub inputs: InputsAre,
    /// Whether the script holds the model's outputs and the loss until the next iteration, or frees the outputs
    /// before the backward pass and the loss after it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = OutputsAre::Held, help_heading = TRAINING)]
    pub outputs: OutputsAre,
    /// What is checkpointed: none, blocks, sequential:N, or module names with commas between.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = crate::commands::estimate::parse_checkpoint, help_heading = TRAINING)]
    pub checkpoint: crate::commands::estimate::CheckpointChoice,
    /// Micro-batches of the given batch in a step.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), help_heading = TRAINING)]
    pub accumulate: u32,
    /// Where zero_grad is called.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = GradientPlace::BeforeForward, help_heading = TRAINING)]
    pub zero_grad: GradientPlace,
    /// Whether zero_grad frees gradients or fills them with zeros.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, help_heading = TRAINING)]
    pub set_to_none: bool,
    /// The loss to add where the captured step returns none; without it, cross-entropy.
    #[arg(long, value_enum, value_name = "KIND", help_heading = TRAINING)]
    pub loss: Option<LossKind>,
    /// How many steps.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = TRAINING)]
    pub steps: u32,
    /// The GPU, such as "RTX 3060" (`vramfit catalogue` lists them): its memory decides whether it fits, its kind what
    /// libraries do there.
    #[arg(long, value_name = "NAME", value_hint = clap::ValueHint::Other, help_heading = GPU)]
    pub gpu: Option<String>,
    /// The most PyTorch may reserve, such as 11GiB, instead of the GPU's memory; beyond it the run fails as PyTorch would.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse, help_heading = GPU)]
    pub vram: Option<u64>,
    /// Allocator settings in the syntax of PYTORCH_CUDA_ALLOC_CONF.
    #[arg(long, value_name = "STR", help_heading = GPU)]
    pub alloc_conf: Option<String>,
}

/// `vramfit estimate`.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct Estimate {
    #[command(flatten)]
    pub run: RunSettings,
    /// Write one page to mail: verdict, timeline, treemap of the peak, modules; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `vramfit plan`.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    pub run: RunSettings,
    /// Write one page to mail: verdict, plans with their code, memory against time; it needs no network.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `vramfit max-batch`.
#[cfg(feature = "simulate")]
#[derive(Args, Debug)]
pub struct MaxBatch {
    #[command(flatten)]
    pub run: RunSettings,
}

/// How long the script holds the model's outputs and the loss.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputsAre {
    /// Until the next iteration gives their names to others.
    Held,
    /// Outputs until the backward pass, the loss until its end.
    Released,
}

/// Whether inputs stay on the GPU.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InputsAre {
    /// Moved once.
    Kept,
    /// Copied each step, as a data loader does.
    Fresh,
}

/// An element type for the whole model.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Precision {
    /// float32.
    Fp32,
    /// bfloat16.
    Bf16,
    /// float16.
    Fp16,
    /// float64.
    Fp64,
}

/// An element type for autocast.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HalfPrecision {
    /// bfloat16.
    Bf16,
    /// float16, with a GradScaler.
    Fp16,
}

/// Where zero_grad is called.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GradientPlace {
    /// Before the forward pass.
    BeforeForward,
    /// Between forward and backward pass, as many older scripts do.
    BeforeBackward,
}

/// Training or evaluation.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeKind {
    /// model.train().
    Train,
    /// model.eval() under no_grad.
    Eval,
}

/// A loss to add.
#[cfg(feature = "simulate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LossKind {
    /// cross_entropy of the first output.
    CrossEntropy,
    /// The first output's mean.
    Mean,
    /// None: no backward pass.
    None,
}
