//! `vramfit --help` on one screen: the commands in groups, each with the first line of its definition.

use std::fmt::Write;

use anstyle::Style;
use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use crate::arguments::Arguments;

/// Groups of commands.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Before a run", &["estimate", "run", "plan", "max-batch", "web", "layers", "models", "catalogue"]),
    ("After a run", &["explain", "replay"]),
    ("During a run", &["gpus", "top", "serve", "calibrate"]),
    ("In code", &["lint"]),
];
/// The first thing that someone types with what they have; without the simulator, on their own sources.
#[cfg(feature = "simulate")]
const FIRST: &[(&str, &str)] = &[
    ("vramfit run --gpu 3060 train.py", "a training script"),
    ("vramfit estimate config.json --gpu 3060", "a config.json, or a name"),
    ("python -m vramfit capture my_module:build", "a module: for estimate"),
];
#[cfg(not(feature = "simulate"))]
const FIRST: &[(&str, &str)] = &[("vramfit lint train.py", "your sources")];
/// The group of all other commands.
const OTHERS: &str = "Shell";

/// The command line with its help in groups.
pub fn command() -> Command {
    let command = Arguments::command();
    let list = list(&command);
    let (head, literal) = (Style::new().bold().underline(), Style::new().bold());
    let first: String = FIRST
        .iter()
        .enumerate()
        .map(|(index, (words, what))| {
            let begin = if index == 0 { format!("{head}To begin{head:#}") } else { " ".repeat(8) };
            format!("{begin}  {literal}{words:43}{literal:#}{what}\n")
        })
        .collect();
    let template = format!(
        "{{about}}\n{first}{list}\
         {head}Options{head:#}  {literal}--json --color[=WHEN] --no-color{literal:#} everywhere; {literal}vramfit COMMAND --help{literal:#}\n\
         {head}Exit codes{head:#}  0 fits, no findings; 1 does not fit, findings; 2 bad usage or input\n"
    );
    command.help_template(StyledStr::from(template))
}

/// One line per command; the first of a group begins with its name.
fn list(command: &Command) -> String {
    let (head, literal) = (Style::new().bold().underline(), Style::new().bold());
    let is_other = |name: &str| !GROUPS.iter().any(|(_, names)| names.contains(&name));
    let others: Vec<&str> = command.get_subcommands().map(Command::get_name).filter(|name| is_other(name)).collect();
    let mut list = String::new();
    for (group, names) in GROUPS.iter().copied().chain([(OTHERS, others.as_slice())]) {
        // Some commands need the feature `simulate`.
        let known = names.iter().filter_map(|name| Some((name, command.find_subcommand(name)?)));
        for (index, (name, subcommand)) in known.enumerate() {
            let about = subcommand.get_about().map(StyledStr::to_string);
            let group = if index == 0 { group } else { "" };
            let (gap, pad) = (14_usize.saturating_sub(group.len()), 13_usize.saturating_sub(name.len()));
            let _ = writeln!(
                list,
                "{head}{group}{head:#}{:gap$}{literal}{name}{literal:#}{:pad$}{}",
                "",
                "",
                about.unwrap_or_default()
            );
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_the_prompt_fit_on_a_screen_of_24_lines_and_80_columns() {
        let text = command().render_long_help().to_string();
        assert!(text.lines().count() <= 23, "{} lines:\n{text}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text, command().render_help().to_string(), "-h and --help say the same");
    }

    #[test]
    fn every_command_has_a_line() {
        let text = command().render_help().to_string();
        for name in command().get_subcommands().map(Command::get_name).filter(|name| *name != "help") {
            let lines = text.lines().filter(|line| line.split_whitespace().any(|word| word == name));
            assert!(lines.count() >= 1, "{name} is missing:\n{text}");
        }
        for (_, names) in GROUPS {
            assert!(names.iter().all(|name| command().find_subcommand(name).is_some()), "{names:?}");
        }
    }

    #[test]
    fn the_help_of_every_command_fits_into_eighty_columns() {
        let mut whole = command();
        whole.build();
        for command in whole.get_subcommands_mut() {
            for text in [command.render_help().to_string(), command.render_long_help().to_string()] {
                let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
                assert!(long.is_empty(), "{}: {long:#?}", command.get_name());
            }
        }
    }

    #[test]
    fn the_command_line_passes_claps_own_checks() {
        command().debug_assert();
    }
}
