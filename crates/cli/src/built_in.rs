//! The models that are compiled in, and models from files.
//!
//! `built_in/make.py` captures and packs them: `models.json` has a row a model, `models.bin` the packed models one after
//! another.

use std::path::Path;

use vramfit_graph::model::Model;
use vramfit_graph::nearest::nearest;
use vramfit_graph::packed::unpack;
use vramfit_graph::read::{read_file, read_file_for};
use vramfit_graph::select::VariantFlags;
use vramfit_report::models::Row;

use crate::failure::Failure;

const INDEX: &str = include_str!("../built_in/models.json");
const DATA: &[u8] = include_bytes!("../built_in/models.bin");

/// A model that is compiled in.
#[derive(Debug, serde::Deserialize)]
pub struct BuiltIn {
    /// What is shown of it.
    #[serde(flatten)]
    pub row: Row,
    /// Where its packed form begins, and its length.
    at: (usize, usize),
}

/// All of them, as they are listed.
pub fn built_in() -> Result<Vec<BuiltIn>, Failure> {
    serde_json::from_str(INDEX).map_err(|error| Failure::new(format!("the list of built-in models: {error}")))
}

impl BuiltIn {
    /// Unpacks it.
    pub fn model(&self) -> Result<Model, Failure> {
        let (start, length) = self.at;
        let packed = DATA.get(start..start + length).unwrap_or_default();
        unpack(packed).map_err(|error| Failure::new(format!("built-in model {}: {error}", self.row.name)))
    }
}

/// The model of a file, or the built-in one of that name.
pub fn load(name: &str) -> Result<Model, Failure> {
    load_wanted(name, None)
}

/// The same for a command that looks at one variant: others may be left out.
pub fn load_for(name: &str, flags: VariantFlags) -> Result<Model, Failure> {
    load_wanted(name, Some(flags))
}

fn load_wanted(name: &str, wanted: Option<VariantFlags>) -> Result<Model, Failure> {
    if Path::new(name).exists() {
        let model = wanted.map_or_else(|| read_file(name), |flags| read_file_for(name, flags));
        return model.map_err(|error| Failure::new(format!("{name}: {error}")).with_hint(error.hint()));
    }
    let models = built_in()?;
    if let Some(model) = models.iter().find(|model| model.row.name == name) {
        return model.model();
    }
    let looks_like_file =
        name.contains(['/', '\\']) || [".vramfit", ".pt2", ".json", ".toml"].iter().any(|end| name.ends_with(end));
    let found = if looks_like_file {
        "found no such file".to_owned()
    } else {
        let near = nearest(name, models.iter().map(|model| model.row.name.as_str()));
        let near = if near.is_empty() { String::new() } else { format!(", such as {}", near.join(", ")) };
        format!(
            "found neither a file nor a built-in model of that name, needed a capture or a name of `vramfit models`{near}"
        )
    };
    Err(Failure::new(format!("{name}: {found}"))
        .with_hint(Some("make a capture in Python: vramfit.capture(model, inputs, \"model.vramfit\")")))
}
