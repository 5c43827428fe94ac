//! Loads built-in models and models from files.
//!
//! `built_in/make.py` captures and packs the built-in models: `models.json` has a row for each, `models.bin` is the
//! concatenation of the packed models.

use std::path::Path;

use vramfit_graph::model::Model;
use vramfit_graph::nearest::nearest;
use vramfit_graph::select::VariantFlags;
use vramfit_readers::packed::unpack;
use vramfit_readers::{read_file, read_file_for};
use vramfit_report::models::Row;

use crate::failure::Failure;
use crate::hub_cache;

const INDEX: &str = include_str!("../built_in/models.json");
const DATA: &[u8] = include_bytes!("../built_in/models.bin");

/// A built-in model.
#[derive(Debug, serde::Deserialize)]
pub struct BuiltIn {
    /// Its row in `vramfit models`.
    #[serde(flatten)]
    pub row: Row,
    /// Offset and length of its packed form.
    #[serde(rename = "at")]
    range: (usize, usize),
}

/// All built-in models in the order of `vramfit models`.
pub fn built_in() -> Result<Vec<BuiltIn>, Failure> {
    serde_json::from_str(INDEX).map_err(|error| Failure::at("the list of built-in models", error))
}

impl BuiltIn {
    /// Unpacks the model.
    pub fn model(&self) -> Result<Model, Failure> {
        let (start, length) = self.range;
        let packed = DATA.get(start..start + length).unwrap_or_default();
        unpack(packed).map_err(|error| Failure::at(format!("built-in model {}", self.row.name), error))
    }
}

/// Loads a model from a file, or a built-in model by name.
pub fn load(name: &str) -> Result<Model, Failure> {
    load_wanted(name, None)
}

/// Loads a model for a command that uses one variant; the reader may skip the others.
pub fn load_for(name: &str, flags: VariantFlags) -> Result<Model, Failure> {
    load_wanted(name, Some(flags))
}

fn load_wanted(name: &str, wanted: Option<VariantFlags>) -> Result<Model, Failure> {
    let path = Path::new(name);
    let read = |file: &Path| {
        let model = wanted.map_or_else(|| read_file(file), |flags| read_file_for(file, flags));
        model.map_err(|error| {
            let hint = error.hint();
            Failure::at(file.display(), error).with_hint(hint)
        })
    };
    if path.exists() && !path.is_dir() {
        return read(path);
    }
    let models = built_in()?;
    match models.iter().find(|model| model.row.name == name) {
        // A folder may have a built-in model's name, such as a download from Hugging Face.
        Some(model) => model.model(),
        None if path.is_dir() => Err(folder(path)),
        None if hub_cache::is_hub_id(name) => read(&hub_cache::config(name)?),
        None => Err(unknown(name, &models)),
    }
}

/// The failure for a folder.
fn folder(path: &Path) -> Failure {
    let config = path.join("config.json");
    let hint = match config.is_file() {
        true => format!("try its configuration: {}", config.display()),
        false => format!("name a file in it; {OWN}"),
    };
    Failure::new(format!("{}: found a folder, needed a file or a name that `vramfit models` lists", path.display()))
        .with_hint(Some(hint))
}

const OWN: &str = "capture your own model in Python: vramfit.capture(model, inputs, \"model.vramfit\")";

/// The failure for a name that is neither a file nor a built-in model.
fn unknown(name: &str, models: &[BuiltIn]) -> Failure {
    if name.is_empty() {
        return Failure::new("MODEL: found an empty name, needed a file or a name that `vramfit models` lists");
    }
    if name.ends_with(".py") || name.contains('(') {
        return Failure::new(format!(
            "{name}: found Python, needed a file that vramfit reads or a name that `vramfit models` lists"
        ))
        .with_hint(Some(
            "vramfit does not run Python: `python -m vramfit capture my_module:build` captures the model that build() \
                 returns; a model.toml may contain layers = [\"Linear(3, 4)\"]",
        ));
    }
    let looks_like_file =
        name.contains(['/', '\\']) || [".vramfit", ".pt2", ".json", ".toml"].iter().any(|end| name.ends_with(end));
    if looks_like_file {
        return Failure::new(format!("{name}: found no such file")).with_hint(Some(OWN));
    }
    let near = nearest(name, models.iter().map(|model| model.row.name.as_str()));
    let near = if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) };
    Failure::new(format!("{name}: found neither a file nor a built-in model of that name{near}"))
        .with_hint(Some(format!("`vramfit models` lists all built-in models; {OWN}")))
}
