//! The `vramfit` command: arguments in, exit codes out.

#![cfg_attr(
    not(feature = "simulate"),
    allow(dead_code, unused_imports, reason = "some helpers are only for commands that simulate")
)]

mod arguments;
mod commands;
mod exit_status;
mod failure;
mod feed;
#[cfg(feature = "simulate")]
mod first_word;
mod help;
#[cfg(feature = "simulate")]
mod installed_cudnn;
mod interrupt;
mod known_gpus;
mod network;
mod platform;
#[cfg(feature = "simulate")]
mod recorded_script;
mod snapshot_file;
#[cfg(feature = "simulate")]
mod this_gpu;
mod whole_file;

use std::process::ExitCode;

use clap::{ArgMatches, FromArgMatches};

use arguments::{Arguments, Command};
use exit_status::ExitStatus;
use failure::Failure;

/// A simulation spends half of its time on small, short-lived allocations.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(feature = "simulate")]
    if let Some(code) = installed_cudnn::answer_as_worker() {
        return code;
    }
    let matches = match help::command().try_get_matches() {
        Ok(matches) => matches,
        #[cfg(feature = "simulate")]
        Err(error) => first_word::with_command(error).exit(),
        #[cfg(not(feature = "simulate"))]
        Err(error) => error.exit(),
    };
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let result = arguments.output.apply_color().and_then(|()| with_files(arguments, &matches)).and_then(|it| run(&it));
    match result {
        Ok(status) => status.into(),
        Err(failure) => {
            failure::print(&failure);
            ExitCode::from(2)
        }
    }
}

/// The arguments with what files say in the place of flags.
#[cfg(feature = "simulate")]
fn with_files(mut arguments: Arguments, matches: &ArgMatches) -> Result<Arguments, Failure> {
    arguments.read_deepspeed_config(matches)?;
    Ok(arguments)
}

#[cfg(not(feature = "simulate"))]
#[expect(clippy::unnecessary_wraps, reason = "as with files")]
fn with_files(arguments: Arguments, _: &ArgMatches) -> Result<Arguments, Failure> {
    Ok(arguments)
}

fn run(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    match &arguments.command {
        Command::Replay(options) => commands::replay::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::Estimate(options) => commands::estimate::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::Run(options) => commands::run::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::Plan(options) => commands::plan::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::MaxBatch(options) => commands::plan::run_max_batch(options, &arguments.output),
        Command::Explain(options) => commands::explain::run(options, &arguments.output),
        Command::Gpus(options) => commands::gpus::run(options, &arguments.output),
        Command::Top(options) => commands::top::run(options, &arguments.output),
        Command::Serve(options) => commands::serve::run(options),
        #[cfg(feature = "simulate")]
        Command::Web(options) => commands::web::run(options),
        Command::Lint(options) => commands::lint::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::Layers(options) => commands::layers::run(options, &arguments.output),
        #[cfg(feature = "simulate")]
        Command::Models => commands::models::run(&arguments.output),
        Command::Catalogue => commands::catalogue::run(&arguments.output),
        Command::Calibrate(options) => commands::calibrate::run(options, &arguments.output),
        Command::Completions(options) => commands::completions::run(options),
        Command::Man(options) => commands::man::run(options),
    }
}
