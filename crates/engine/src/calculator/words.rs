//! The fields of a question as the words of a command line.

use clap::{Arg, ArgAction, Args, Command, FromArgMatches};
use vramfit_report::page::command;
use vramfit_web::calculator::{Fields, Problem, Question};

use crate::arguments::{EstimateArguments, MaxBatchArguments, PlanArguments, RunSettings};

/// The field that names the model.
const MODEL: &str = "model";
/// The field of an estimate that asks for the reported steps only, which takes less time.
const DRAFT: &str = "draft";
/// Flags that read or write files of this machine, and flags about printing.
const NOT_HERE: [&str; 5] = ["html", "cudnn", "deepspeed-config", "all", "verbose"];

/// A question that was understood.
pub enum Asked {
    /// As of `vramfit estimate`.
    Estimate(EstimateArguments),
    /// As of `vramfit max-batch`.
    MaxBatch(MaxBatchArguments),
    /// As of `vramfit plan`.
    Plan(PlanArguments),
}

impl Asked {
    /// The settings of the training.
    pub fn run(&mut self) -> &mut RunSettings {
        match self {
            Asked::Estimate(given) => &mut given.run,
            Asked::MaxBatch(given) => &mut given.run,
            Asked::Plan(given) => &mut given.run,
        }
    }

    /// Reads the fields of a question.
    pub fn read(question: Question, fields: &Fields) -> Result<Asked, Problem> {
        let definition = definition(question);
        let mut words = Vec::new();
        let is_flag = |name: &str| name != MODEL && !(name == DRAFT && question == Question::Estimate);
        for (name, value) in fields.iter().filter(|(name, _)| is_flag(name)) {
            let flag = flags(&definition).find(|flag| flag.get_long() == Some(name)).ok_or_else(|| unknown(name))?;
            words.extend(word(flag, value).map(Word::whole));
        }
        words.push("--".to_owned());
        words.push(fields.single(MODEL)?.to_owned());
        let matches = definition.try_get_matches_from(words).map_err(|error| refused(&error))?;
        match question {
            Question::Estimate => EstimateArguments::from_arg_matches(&matches).map(Asked::Estimate),
            Question::MaxBatch => MaxBatchArguments::from_arg_matches(&matches).map(Asked::MaxBatch),
            Question::Plan => PlanArguments::from_arg_matches(&matches).map(Asked::Plan),
        }
        .map_err(|error| refused(&error))
    }
}

/// Whether the reported steps are enough.
pub fn is_draft(fields: &Fields) -> bool {
    fields.iter().any(|(name, value)| name == DRAFT && value == "true")
}

/// The command line that asks the same, with the model under `name`.
pub fn command_line(question: Question, fields: &Fields, name: &str) -> String {
    let definition = definition(question);
    let mut words = vec![definition.get_name().to_owned(), name.to_owned()];
    for (name, value) in fields.iter() {
        if let Some(flag) = flags(&definition).find(|flag| flag.get_long() == Some(name)) {
            words.extend(word(flag, value).map(Word::parts).unwrap_or_default());
        }
    }
    command(&words)
}

/// The command's flags that a question may have.
pub fn flags(definition: &Command) -> impl Iterator<Item = &Arg> {
    definition.get_arguments().filter(|flag| flag.get_long().is_some_and(|name| !NOT_HERE.contains(&name)))
}

/// The command line of a question's command, without what all commands have.
pub fn definition(question: Question) -> Command {
    let definition = match question {
        Question::Estimate => EstimateArguments::augment_args(Command::new("estimate")),
        Question::MaxBatch => MaxBatchArguments::augment_args(Command::new("max-batch")),
        Question::Plan => PlanArguments::augment_args(Command::new("plan")),
    };
    definition.no_binary_name(true).disable_help_flag(true)
}

/// A flag with its value.
struct Word {
    flag: String,
    value: Option<String>,
}

impl Word {
    /// In one word, so that no value is taken for a flag.
    fn whole(self) -> String {
        match self.value {
            Some(value) => format!("{}={value}", self.flag),
            None => self.flag,
        }
    }

    /// In two words, as people write it.
    fn parts(self) -> Vec<String> {
        match &self.value {
            Some(value) if value.starts_with('-') || value.is_empty() => vec![self.whole()],
            Some(_) => [Some(self.flag), self.value].into_iter().flatten().collect(),
            None => vec![self.flag],
        }
    }
}

/// A field as a flag; `None` for a switch that is off.
fn word(flag: &Arg, value: &str) -> Option<Word> {
    let name = format!("--{}", flag.get_long().unwrap_or_default());
    if !matches!(flag.get_action(), ArgAction::SetTrue) {
        return Some(Word { flag: name, value: Some(value.to_owned()) });
    }
    match value {
        "" | "true" => Some(Word { flag: name, value: None }),
        "false" => None,
        // The parser says what is wrong with it.
        _ => Some(Word { flag: name, value: Some(value.to_owned()) }),
    }
}

fn unknown(name: &str) -> Problem {
    Problem::of_question(
        format!("found a field `{name}`, needed `{MODEL}` or the name of a setting"),
        Some("/api/options lists the settings"),
    )
}

/// What the parser of command lines says, without how to get help there.
fn refused(error: &clap::Error) -> Problem {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraphs =
        text.split("\n\n").filter(|part| !part.starts_with("For more information") && !part.starts_with("Usage:"));
    let joined =
        paragraphs.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ");
    Problem::of_question(joined.trim_end_matches("; "), None::<String>)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Asked, Problem> {
        Asked::read(Question::Estimate, &Fields::parse(query).unwrap())
    }

    #[test]
    fn fields_are_the_flags_of_the_command_line() {
        let mut asked = read("model=gpt2&batch=8&ema=true&clip-grad=false&size=a%3D1&size=b%3D2&gpu=RTX+3060").unwrap();
        let run = asked.run();
        assert_eq!((run.at.model.as_str(), run.at.batch, run.ema, run.clip_grad), ("gpt2", Some(8), true, false));
        assert_eq!((run.at.size.len(), run.gpu.as_deref()), (2, Some("RTX 3060")));
    }

    #[test]
    fn only_an_estimate_may_be_a_draft() {
        let fields = |query| Fields::parse(query).unwrap();
        let draft = fields("model=gpt2&gpu=H200&draft=true");
        assert!(is_draft(&draft) && !is_draft(&fields("model=gpt2&draft=false")) && !is_draft(&fields("model=gpt2")));
        assert!(Asked::read(Question::Estimate, &draft).is_ok());
        assert!(Asked::read(Question::Plan, &draft).is_err() && Asked::read(Question::MaxBatch, &draft).is_err());
        assert_eq!(command_line(Question::Estimate, &draft, "gpt2"), "vramfit estimate gpt2 --gpu H200");
    }

    #[test]
    fn a_field_that_is_no_setting_or_has_no_such_value_is_refused_with_what_is_needed() {
        let error = |query: &str| read(query).err().map(|problem| problem.error).unwrap_or_default();
        for field in ["html=/tmp/page.html", "cudnn=/etc", "help=", "json=", "nonsense=1", "--batch=1"] {
            let text = error(&format!("model=gpt2&{field}"));
            assert!(text.contains("needed `model` or the name of a setting"), "{field}: {text}");
        }
        assert!(error("model=gpt2&batch=many").contains("--batch"), "{}", error("model=gpt2&batch=many"));
        assert!(error("model=gpt2&ema=perhaps").contains("--ema"));
        assert!(error("batch=1").contains("found no `model`"));
        assert!(error("model=gpt2&model=bert").contains("several `model`"));
        assert!(!error("model=gpt2&optimizer=x").contains("--help"), "{}", error("model=gpt2&optimizer=x"));
    }

    #[test]
    fn a_value_never_becomes_a_flag_of_its_own() {
        let mut asked = read("model=--html%3D/tmp/x&freeze=--html%3D/tmp/x").unwrap();
        assert_eq!(asked.run().at.model, "--html=/tmp/x");
        let Asked::Estimate(given) = asked else { panic!("an estimate was asked for") };
        assert_eq!(given.html, None);
    }

    #[test]
    fn the_command_line_is_one_to_paste() {
        let fields =
            Fields::parse("model=file:1/config.json&batch=8&gpu=RTX+3060&ema=true&clip-grad=false&lora=8").unwrap();
        assert_eq!(
            command_line(Question::Estimate, &fields, "config.json"),
            "vramfit estimate config.json --batch 8 --gpu 'RTX 3060' --ema --lora 8"
        );
    }
}
