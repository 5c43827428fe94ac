//! What to type where the first word is no command, but a script or a model.

use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use vramfit_engine::built_in::{built_in, named};

/// The error, with the command that takes such a word.
pub fn with_command(mut error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let Some(command) = command_for(word) else { return error };
    let tip = format!("to answer for {word}, type 'vramfit {command} {word}'");
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
    error
}

fn command_for(word: &str) -> Option<&'static str> {
    let ending = Path::new(word).extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    match ending.as_deref() {
        Some("py") => Some("run"),
        Some("json" | "toml" | "vramfit" | "pt2") => Some("estimate"),
        Some("pickle" | "pkl") => Some("explain"),
        _ => built_in().ok().and_then(|models| named(&models, word).map(|_| "estimate")),
    }
}
