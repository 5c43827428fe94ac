//! The command line.

#[cfg(feature = "simulate")]
mod config;
pub mod lint;
pub mod listen;
pub mod monitor;
#[cfg(feature = "simulate")]
pub mod run;
pub mod snapshot;
pub mod tools;
#[cfg(feature = "simulate")]
pub mod web;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::failure::Failure;

pub use lint::{Lint, LintFormat};
#[cfg(feature = "simulate")]
pub use run::RunArguments;
pub use snapshot::{Explain, OtherSettings, Replay, SnapshotFile, SummaryAt};
pub use tools::{Calibrate, Completions, Man};
#[cfg(feature = "simulate")]
pub use vramfit_engine::arguments::{EstimateArguments, Layers, Margin, MaxBatchArguments, PlanArguments, RunSettings};

/// For the manual; `vramfit --help` has a short form.
const EXIT_CODES: &str = "Exit codes: 0 if it fits, if some plan fits, or if there are no findings; 1 if it does not fit, \
                          is too close, or has findings; 2 for bad usage or bad input.";

/// Will it fit, where does the memory go, what is the cheapest change that fits?
#[derive(Debug, Parser)]
#[command(name = "vramfit", bin_name = "vramfit", version, max_term_width = 80, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub output: Output,
}

/// Flags of every command.
#[derive(Args, Debug)]
pub struct Output {
    /// Print JSON instead of text; sizes are in bytes.
    #[arg(long, global = true)]
    pub json: bool,
    /// When to colour the text; without a value, always.
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
    /// Applies the colour flags to standard output and standard error.
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

/// The commands. The first line of each is its line in `vramfit --help`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Predict the memory of a training run without a GPU.
    ///
    /// Simulates three training steps operator by operator, and the caching allocator block by block. Reports allocated
    /// and reserved memory in each phase, and what the peak consists of. Simulates torch 2.11 on an H200 unless --gpu
    /// names another GPU.
    #[cfg(feature = "simulate")]
    Estimate(Box<EstimateArguments>),
    /// Find the cheapest changes that make a training fit.
    ///
    /// Simulates every candidate as `estimate` does, starting from the given settings, and prints code to paste. Ctrl-C
    /// stops the search and prints the best plan so far.
    #[cfg(feature = "simulate")]
    Plan(Box<PlanArguments>),
    /// Dry-run a training script, and predict its memory.
    ///
    /// Runs the script in the Python of the active environment, with a GPU that is not there, and records what it does: any
    /// number of models, optimizers and backward passes. Then simulates that as `estimate` does, and explains it. Values on the
    /// GPU are not computed, and files are not written.
    #[cfg(feature = "simulate")]
    Run(Box<RunArguments>),
    /// Print the largest batch up to which every batch fits.
    ///
    /// Prints 0 and exits with 1 if not even a batch of 1 fits.
    #[cfg(feature = "simulate")]
    MaxBatch(Box<MaxBatchArguments>),
    /// Open the calculator in the browser.
    ///
    /// Serves a page on this machine, where sliders set the batch and all other settings, and the answer follows. It loads
    /// nothing from the network. docs/web.md describes the page, its API and its limits.
    #[cfg(feature = "simulate")]
    Web(web::Web),
    /// Show a model module by module: sizes, weights, FLOPs.
    ///
    /// Prints output shape, weights, bytes of the output, bytes saved for backward, and FLOPs as counted by
    /// torch.utils.flop_counter.FlopCounterMode.
    #[cfg(feature = "simulate")]
    Layers(Layers),
    /// List the built-in models.
    #[cfg(feature = "simulate")]
    Models,
    /// List the known GPUs and their properties.
    ///
    /// Prints memory, bandwidth, FLOP/s, and which PyTorch versions and kernels they run.
    Catalogue,
    /// Explain how a recorded run used its memory.
    ///
    /// Reports the peak and its holders, leaks, kept graphs, spikes, fragmentation, and why an allocation failed. Exits
    /// with 1 if there is any finding, including a spike.
    Explain(Explain),
    /// Replay a recorded run under other allocator settings.
    ///
    /// Without other settings, checks that the simulated allocator reproduces the recording block by block.
    Replay(Replay),
    /// Show the GPUs and their processes, as gpustat does.
    ///
    /// Compatible with gpustat's output, flags and JSON, but answers in milliseconds.
    Gpus(monitor::Gpus),
    /// Watch the GPUs and their processes full screen.
    Top(monitor::Top),
    /// Serve metrics and a page about the GPUs over HTTP.
    ///
    /// Serves Prometheus metrics at /metrics and JSON at /api/gpus and /api/history.
    Serve(monitor::Serve),
    /// Measure this machine's GPU for exact estimates.
    ///
    /// Runs a short Python script with torch that measures the CUDA context and cuBLAS's workspaces.
    Calibrate(Calibrate),
    /// Find code that wastes GPU memory in Python sources.
    ///
    /// Exits with 1 if there are findings, with 2 if a file could not be read or parsed.
    Lint(Lint),
    /// Print shell completions.
    ///
    /// For bash: vramfit completions bash > ~/.local/share/bash-completion/completions/vramfit
    Completions(Completions),
    /// Print the manual page, or write one for each command.
    ///
    /// To read a page: vramfit man | man -l -
    Man(Man),
}
