//! Why a `model.toml` is not valid.

use thiserror::Error;

/// Why a `model.toml` is not valid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SketchError {
    /// It is not TOML.
    #[error("line {line}: {}", source.message())]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The error of the TOML parser.
        source: toml::de::Error,
    },
    /// Something is missing or not what it should be.
    #[error("{location}: found {found}, needed {needed}")]
    Unfit {
        /// The key, or the layer.
        location: String,
        /// What is there.
        found: String,
        /// What should be.
        needed: String,
    },
    /// A layer that is not known.
    #[error("{location}: found layer `{class}`, which model.toml does not support{near}")]
    UnknownLayer {
        /// Where.
        location: String,
        /// Its name.
        class: String,
        /// Similar names, or nothing.
        near: String,
    },
    /// An argument that is not known.
    #[error("{location}: {class} has no modelled argument `{name}`{near}")]
    UnknownArgument {
        /// Where.
        location: String,
        /// The layer.
        class: String,
        /// The argument.
        name: String,
        /// Similar names, or nothing.
        near: String,
    },
    /// A layer cannot take its input.
    #[error("layer {layer} ({class}): {found} comes in, {needed}")]
    Mismatch {
        /// The layer's name.
        layer: String,
        /// Its class.
        class: String,
        /// The shape that comes in.
        found: String,
        /// What it takes.
        needed: String,
    },
    /// The file describes too many layers.
    #[error("found {found} layers, repeats included; at most {limit} are read")]
    TooMany {
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// `; did you mean A or B?`, or nothing.
pub(super) fn near(name: &str, known: &[&'static str]) -> String {
    let near = vramfit_graph::nearest::nearest(name, known.iter().copied());
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// Why a layer fails.
#[derive(Debug)]
pub(super) enum Fault {
    /// What it needs of its input.
    Needed(String),
    /// A layer inside of it failed.
    Inside(Box<SketchError>),
}
