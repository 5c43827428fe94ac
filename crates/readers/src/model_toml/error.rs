//! Every way a `model.toml` can be no model.

use thiserror::Error;

/// Why a `model.toml` is no model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SketchError {
    /// It is no TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// Something is missing or not what it should be.
    #[error("{place}: found {found}, needed {needed}")]
    Unfit {
        /// The key, or the layer.
        place: String,
        /// What is there.
        found: String,
        /// What should be.
        needed: String,
    },
    /// A layer that is not known.
    #[error("{place}: found layer `{class}`, which is not one that can be sketched{near}")]
    UnknownLayer {
        /// Where.
        place: String,
        /// Its name.
        class: String,
        /// Names that it may have meant, or nothing.
        near: String,
    },
    /// An argument that is not known.
    #[error("{place}: {class} has no argument `{name}` that is modelled{near}")]
    UnknownArgument {
        /// Where.
        place: String,
        /// The layer.
        class: String,
        /// The argument.
        name: String,
        /// Names that it may have meant, or nothing.
        near: String,
    },
    /// A layer cannot take what comes in.
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
    /// The file describes more than is read.
    #[error("the layers are {found} together with repeats, at most {limit} are read")]
    TooMany {
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// `, did you mean A or B`, or nothing.
pub(super) fn near(name: &str, known: &[&'static str]) -> String {
    let near = vramfit_graph::nearest::nearest(name, known.iter().copied());
    if near.is_empty() { String::new() } else { format!("; near are {}", near.join(", ")) }
}

/// Why a layer cannot go on.
#[derive(Debug)]
pub(super) enum Fault {
    /// What it needs of what comes in.
    Needed(String),
    /// A layer within it has said so.
    Inside(Box<SketchError>),
}
