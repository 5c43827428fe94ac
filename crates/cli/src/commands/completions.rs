//! `vramfit completions`: shell completions from the definition of the command line.

use crate::arguments::Completions;
use crate::commands::print_raw;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::help;
#[cfg(feature = "simulate")]
use vramfit_engine::built_in::built_in;

/// Prints the completions.
pub fn run(options: &Completions) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut help::command(), "vramfit", &mut script);
    #[cfg(feature = "simulate")]
    if options.shell == clap_complete::Shell::Bash {
        script = with_models(&String::from_utf8_lossy(&script))?.into_bytes();
    }
    print_raw(&script)?;
    Ok(ExitStatus::Good)
}

/// Adds the built-in models to the bash completions of commands that take a model. Bash offers files if no word matches.
#[cfg(feature = "simulate")]
fn with_models(script: &str) -> Result<String, Failure> {
    let names: Vec<String> = built_in()?.into_iter().map(|model| model.row.name).collect();
    let names = names.join(" ");
    Ok(["estimate", "plan", "max__subcmd__batch", "layers"].iter().fold(script.to_owned(), |script, command| {
        let words = format!("vramfit__subcmd__{command})\n            opts=\"");
        script.replacen(&words, &format!("{words}{names} "), 1)
    }))
}
