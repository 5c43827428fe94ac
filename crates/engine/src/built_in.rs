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

use crate::hub_cache;
use crate::hub_names;
use vramfit_report::failure::Failure;

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
        return other_kind(name, true).map_or_else(|| read(path), Err);
    }
    let models = built_in()?;
    match named(&models, name) {
        // A folder may have a built-in model's name, such as a download from Hugging Face.
        Some(model) => model.model(),
        None if path.is_dir() => Err(folder(path)),
        None if hub_cache::is_hub_id(name) => from_hub(name, &models, read),
        None => Err(other_kind(name, false).unwrap_or_else(|| unknown(name, &models))),
    }
}

/// The built-in model of a name. Case, spaces and dashes do not matter.
pub fn named<'a>(models: &'a [BuiltIn], name: &str) -> Option<&'a BuiltIn> {
    let plain = |name: &str| name.to_ascii_lowercase().replace([' ', '-', '_'], "");
    let exact = models.iter().find(|model| model.row.name == name);
    exact.or_else(|| models.iter().find(|model| plain(&model.row.name) == plain(name)))
}

/// A model of the Hub: its configuration from the local cache, else the built-in model of the same sizes.
fn from_hub(name: &str, models: &[BuiltIn], read: impl Fn(&Path) -> Result<Model, Failure>) -> Result<Model, Failure> {
    let missing = match hub_cache::config(name) {
        Ok(config) => return read(&config),
        Err(missing) => missing,
    };
    let Some(model) = of_hub(models, name) else { return Err(missing) };
    let mut loaded = model.model()?;
    loaded.notes.push(format!("{name} is not in the local Hugging Face cache: {}", taken_as(model)));
    Ok(loaded)
}

/// The built-in model of the same sizes as one of the Hub.
pub fn of_hub<'a>(models: &'a [BuiltIn], name: &str) -> Option<&'a BuiltIn> {
    hub_names::built_in_name(name).and_then(|known| named(models, known))
}

/// What to know where a model of the Hub is answered for by a built-in one.
pub fn taken_as(model: &BuiltIn) -> String {
    format!(
        "taken as the built-in model {}, which is built in fp32; from_pretrained may load another type (--dtype)",
        model.row.name
    )
}

/// The failure for a file that is no model by the end of its name: a script, or weights. `is_there`: whether there is such a file.
pub fn other_kind(name: &str, is_there: bool) -> Option<Failure> {
    let ending = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
    let (kind, why, hint) = match ending.as_str() {
        "py" => ("a Python script", "", SCRIPT),
        "ipynb" => ("a notebook", "", NOTEBOOK),
        "pt" | "pth" | "bin" | "ckpt" | "safetensors" | "gguf" => {
            ("weights", ": weights alone do not say what a model computes", WEIGHTS)
        }
        _ => return None,
    };
    let message = match is_there {
        true => {
            format!("{name}: found {kind}, needed a file that vramfit reads or a name that `vramfit models` lists{why}")
        }
        false => format!("{name}: found no such file, and {kind} would be no model{why}"),
    };
    Some(Failure::new(message).with_hint(Some(hint)))
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

const SCRIPT: &str = "`vramfit run train.py` runs a training script as it is, without a GPU; `python -m vramfit capture my_module:build` \
                      captures the model that build() returns; a model.toml may contain layers = [\"Linear(3, 4)\"]";
const NOTEBOOK: &str = "`jupyter nbconvert --to script` makes a script of it, which `vramfit run` runs without a GPU";
const WEIGHTS: &str = "a config.json beside them will do, if it is of a family that vramfit knows; else capture the model that loads them, \
                       in Python: vramfit.capture(model, inputs, \"model.vramfit\")";
const OWN: &str = "capture your own model in Python: vramfit.capture(model, inputs, \"model.vramfit\")";

/// The failure for a name that is neither a file nor a built-in model.
fn unknown(name: &str, models: &[BuiltIn]) -> Failure {
    if name.is_empty() {
        return Failure::new("MODEL: found an empty name, needed a file or a name that `vramfit models` lists");
    }
    if name.contains('(') || name.contains(".py:") {
        return Failure::new(format!(
            "{name}: found Python, needed a file that vramfit reads or a name that `vramfit models` lists"
        ))
        .with_hint(Some(SCRIPT));
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
