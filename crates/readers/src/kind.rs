//! The format that a file's name announces.

use std::fmt;
use std::path::Path;

/// The format of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.vramfit`.
    Capture,
    /// `.pt2`.
    Archive,
    /// `.json`.
    Config,
    /// `.toml`.
    Sketch,
    /// Unknown: a pipe, or another extension.
    Unknown,
}

impl Kind {
    /// By the extension of a path.
    pub fn of(path: &Path) -> Kind {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("vramfit") => Kind::Capture,
            Some("pt2") => Kind::Archive,
            Some("json") => Kind::Config,
            Some("toml") => Kind::Sketch,
            _ => Kind::Unknown,
        }
    }

    /// How to make such a file.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Kind::Capture => "write the file with vramfit.capture(model, inputs, \"model.vramfit\")",
            Kind::Archive => "write the file with torch.export.save(torch.export.export(model, inputs), \"model.pt2\")",
            Kind::Config => {
                "docs/config-json.md says which configurations are read; any model can be captured in Python: vramfit.capture"
            }
            Kind::Sketch => "docs/model-toml.md shows what a model.toml holds",
            Kind::Unknown => {
                "in Python, vramfit.capture(model, inputs, \"model.vramfit\") makes a capture; `vramfit models` lists what needs no file"
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Kind::Capture => "a capture: a JSON object, compressed with gzip",
            Kind::Archive => "a zip archive of torch.export.save",
            Kind::Config => "a config.json of Hugging Face: a JSON object with a `model_type`",
            Kind::Sketch => "a model.toml: a list of layers",
            Kind::Unknown => "a capture, a .pt2 of torch.export.save, a config.json or a model.toml",
        })
    }
}
