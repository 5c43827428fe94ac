//! `vramfit completions`: what a shell needs to complete a command line, from the one definition of it.

use crate::Verdict;
use crate::arguments::Completions;
use crate::commands::print_raw;
use crate::failure::Failure;
use crate::help;

/// Prints them.
pub fn run(options: &Completions) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut help::command(), "vramfit", &mut script);
    print_raw(&script)?;
    Ok(Verdict::Good)
}
