//! The settings of a training, from the definitions of the command line's flags.

use clap::{Arg, ArgAction};
use serde::Serialize;
use vramfit_web::calculator::Question;

use super::words::{definition, flags};

/// What `/api/options` answers.
#[derive(Debug, Serialize)]
pub struct Options {
    options: Vec<OptionRow>,
}

/// A setting.
#[derive(Debug, Serialize)]
struct OptionRow {
    /// The field's name, which is the flag's.
    name: String,
    /// The group it belongs to.
    group: String,
    /// What it sets.
    help: String,
    /// How its value is called; null for a switch.
    value: Option<String>,
    /// The values it may have, where they are few.
    values: Vec<String>,
    /// Its value if it is not given.
    default: Option<String>,
    /// Whether it may be given several times.
    several: bool,
}

/// All settings, in the order of `vramfit estimate --help`.
pub fn options() -> Options {
    Options { options: flags(&definition(Question::Estimate)).map(row).collect() }
}

fn row(flag: &Arg) -> OptionRow {
    let is_switch = matches!(flag.get_action(), ArgAction::SetTrue);
    let values = flag.get_possible_values();
    OptionRow {
        name: flag.get_long().unwrap_or_default().to_owned(),
        group: flag.get_help_heading().unwrap_or_default().to_owned(),
        help: flag.get_help().map(ToString::to_string).unwrap_or_default(),
        value: (!is_switch).then(|| {
            let names = flag.get_value_names().unwrap_or_default();
            names.first().map_or_else(String::new, ToString::to_string)
        }),
        values: match is_switch {
            true => Vec::new(),
            false => values.iter().map(|value| value.get_name().to_owned()).collect(),
        },
        default: flag
            .get_default_values()
            .first()
            .filter(|_| !is_switch)
            .map(|value| value.to_string_lossy().into_owned()),
        several: matches!(flag.get_action(), ArgAction::Append),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_training_is_a_setting_and_none_reads_files() {
        let names: Vec<String> = options().options.into_iter().map(|row| row.name).collect();
        for wanted in
            ["batch", "seq", "size", "optimizer", "lora", "quantize", "checkpoint", "accumulate", "gpu", "vram"]
        {
            assert!(names.iter().any(|name| name == wanted), "{wanted}");
        }
        assert!(!names.iter().any(|name| ["html", "cudnn", "json", "help"].contains(&name.as_str())), "{names:?}");
    }
}
