//! The `vramfit` command: arguments in, exit codes out.

mod arguments;
mod commands;
mod failure;
mod snapshot_file;
mod whole_file;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.output.apply_color();
    let result = match &arguments.command {
        Command::Replay(options) => commands::replay::run(options, &arguments.output),
        Command::Estimate(options) => commands::estimate::run(options, &arguments.output),
        Command::Explain(options) => commands::explain::run(options, &arguments.output),
        Command::Lint(options) => commands::lint::run(options, &arguments.output),
    };
    match result {
        Ok(verdict) => verdict.into(),
        Err(failure) => {
            failure.print();
            ExitCode::from(2)
        }
    }
}

/// How a command that did its work came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits, is clean, or simply was done.
    Good,
    /// It does not fit, is too close, or has findings.
    Bad,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        match verdict {
            Verdict::Good => ExitCode::SUCCESS,
            Verdict::Bad => ExitCode::from(1),
        }
    }
}
