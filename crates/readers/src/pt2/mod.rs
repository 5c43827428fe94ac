//! Reads the archives that `torch.export.save` writes (torch 2.8 to 2.15), with or without their weights.
//!
//! Of the zip archive only its list, the model's graph and the places of the weights are read, never the weights. The
//! graph goes through these stations: `document` reads the JSON as it is; `flatten` turns names into numbers and puts
//! graphs within the graph in their places; `variant` works out the calls in each precision and mode; `lifetime` finds out
//! when Python lets go of tensors. `docs/pt2.md` says what an archive cannot tell.

mod agreement;
mod argument;
mod assemble;
mod document;
mod error;
mod fast_path;
mod flatten;
mod fold;
mod lifetime;
mod node;
mod open;
mod operators;
mod outputs;
mod place;
mod precision;
mod products;
mod renamed;
mod sample;
pub(super) mod signature;
mod sizes;
mod statement;
mod sympy;
mod traced;
mod variant;
mod weights;

use std::io::{Read, Seek};

use super::ReadError;
use super::json::context::Context;
use super::json::decode;
use super::zip::Archive;
use assemble::Contents;
use document::{Head, Payloads, Program};
pub use error::ArchiveError;
use vramfit_graph::model::Model;
use vramfit_graph::select::VariantFlags;

/// The version of the format that is read, its greater part.
const SCHEMA: i64 = 8;

/// Reads the model in an archive, up to `limit` bytes of each entry: the variant that `wanted` asks for, or all of them.
pub(super) fn read(file: impl Read + Seek, limit: u64, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let mut archive = Archive::open(file)?;
    let entry = model_entry(&archive)?;
    let short = entry.find("models/").map_or(entry.as_str(), |at| &entry[at..]).to_owned();
    let text = archive.text(&entry, limit)?;
    // Both entries are read in one context: the numbers of texts are those of one table.
    let context = Context::new();
    let program = program(&text, &context).map_err(|error| error.within(&short))?;
    let config = config_entry(&archive, &entry);
    let config_text = config.as_ref().map(|config| archive.text(config, limit)).transpose()?;
    let payloads = match (&config, &config_text) {
        (Some(config), Some(text)) => {
            let short = config.find("data/").map_or(config.as_str(), |at| &config[at..]);
            decode::<Payloads<'_>>(text, &context).map_err(|error| error.within(short))?.0
        }
        _ => Vec::new(),
    };
    let masks = assemble::mask_inputs(&program);
    let full = sample::full_of_ones(&mut archive, &entry, &masks);
    let contents = Contents { program, payloads, texts: context.take_texts(), full };
    assemble::model(&contents, wanted).map_err(|error| error.within(&short))
}

fn program<'a>(text: &'a str, context: &Context) -> Result<Program<'a>, ReadError> {
    let program = match decode::<Program<'_>>(text, context) {
        Ok(program) => program,
        Err(error) => match decode::<Head>(text, &Context::new()) {
            // Another version may differ anywhere: that it is another one explains the rest.
            Ok(Head(found)) if found != SCHEMA => return Err(ArchiveError::UnknownSchema { found }.into()),
            _ => return Err(error),
        },
    };
    match program.schema {
        SCHEMA => Ok(program),
        found => Err(ArchiveError::UnknownSchema { found }.into()),
    }
}

/// The entry that has the graph: `models/model.json`, or the first of several models.
fn model_entry<File: Read + Seek>(archive: &Archive<File>) -> Result<String, ReadError> {
    let is_model = |name: &&str| {
        let mut parts = name.rsplit('/');
        parts.next().is_some_and(|last| last.ends_with(".json")) && parts.next() == Some("models")
    };
    let usual = archive.names().filter(is_model).find(|name| name.ends_with("/model.json"));
    let not_one = || {
        let names: Vec<&str> = archive.names().take(5).collect();
        ReadError::from(ArchiveError::NotAnExport {
            present: if names.is_empty() { "no entries".to_owned() } else { names.join(", ") },
        })
    };
    usual.or_else(|| archive.names().find(is_model)).map(str::to_owned).ok_or_else(not_one)
}

/// The entry that says where the weights of the model in `entry` lie; older archives have none.
fn config_entry<File: Read + Seek>(archive: &Archive<File>, entry: &str) -> Option<String> {
    let (root, file) = entry.split_once("models/")?;
    let config = format!("{root}data/weights/{}_weights_config.json", file.strip_suffix(".json")?);
    archive.names().find(|name| *name == config).map(str::to_owned)
}
