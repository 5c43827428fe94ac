//! Reads the archives that `torch.export.save` writes (torch 2.8 to 2.15), with or without their weights.
//!
//! Of the zip archive only the list of entries, the model's graph and the locations of the weights are read, never the
//! weights. `document` reads the JSON as it is; `flatten` turns names into numbers and inlines nested graphs; `variant`
//! derives the calls in each precision and mode; `lifetime` derives when Python frees tensors. `docs/pt2.md` says what an
//! archive does not contain.

mod agreement;
mod assemble;
mod attention_results;
mod call_site;
mod causes;
mod document;
pub(crate) mod error;
mod event;
mod fast_path;
mod flatten;
mod fold;
mod graph;
mod lifetime;
mod node;
mod open;
mod operators;
mod outputs;
mod precision;
mod products;
mod renamed;
mod sample;
mod scope;
pub(super) mod signature;
mod sizes;
mod statement;
mod sympy;
mod tensor_meta;
mod traced;
mod type_table;
mod variant;
mod weights;

use std::io::{Read, Seek};

use super::error::ReadError;
use super::json::{ParseState, decode};
use super::zip_archive::Archive;
use assemble::Contents;
use document::{Head, Payloads, Program};
pub use error::ArchiveError;
use vramfit_graph::model::Model;
use vramfit_graph::select::VariantFlags;

/// The major version of the format that is read.
const SCHEMA: i64 = 8;

/// Reads the model in an archive, up to `limit` bytes of each entry: the variant that `wanted` asks for, or all of them.
pub(super) fn read(file: impl Read + Seek, limit: u64, wanted: Option<VariantFlags>) -> Result<Model, ReadError> {
    let mut archive = Archive::open(file)?;
    let entry = model_entry(&archive)?;
    let short = entry.find("models/").map_or(entry.as_str(), |at| &entry[at..]).to_owned();
    let text = archive.text(&entry, limit)?;
    // Both entries share one state, so that the numbers of their texts are of one table.
    let state = ParseState::new();
    let program = program(&text, &state).map_err(|error| error.within(&short))?;
    let config = config_entry(&archive, &entry);
    let config_text = config.as_ref().map(|config| archive.text(config, limit)).transpose()?;
    let payloads = match (&config, &config_text) {
        (Some(config), Some(text)) => {
            let short = config.find("data/").map_or(config.as_str(), |at| &config[at..]);
            decode::<Payloads<'_>>(text, &state).map_err(|error| error.within(short))?.0
        }
        _ => Vec::new(),
    };
    let masks = assemble::mask_inputs(&program);
    let full = sample::full_of_ones(&mut archive, &entry, &masks);
    let contents = Contents { program, payloads, texts: state.take_texts(), full };
    assemble::model(&contents, wanted).map_err(|error| error.within(&short))
}

fn program<'a>(text: &'a str, state: &ParseState) -> Result<Program<'a>, ReadError> {
    let program = match decode::<Program<'_>>(text, state) {
        Ok(program) => program,
        Err(error) => match decode::<Head>(text, &ParseState::new()) {
            // Another version may differ anywhere, which explains any other error.
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

/// The entry with the locations of the weights of the model in `entry`; older archives have none.
fn config_entry<File: Read + Seek>(archive: &Archive<File>, entry: &str) -> Option<String> {
    let (root, file) = entry.split_once("models/")?;
    let config = format!("{root}data/weights/{}_weights_config.json", file.strip_suffix(".json")?);
    archive.names().find(|name| *name == config).map(str::to_owned)
}
