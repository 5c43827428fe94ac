//! Why an archive has no usable model.

use thiserror::Error;

/// Why an archive has no usable model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A zip archive that is not one of torch.export.
    #[error("found a zip archive without `models/*.json`, which torch.export.save writes; it has {present}")]
    NotAnExport {
        /// Some of its entries.
        present: String,
    },
    /// An archive of another version than is known.
    #[error("schema_version: found {found}; this vramfit reads 8, which torch 2.8 to 2.15 write")]
    UnknownSchema {
        /// What the file says.
        found: i64,
    },
    /// A name that is not defined.
    #[error("{location} names {what} `{name}`, which no input or node defines")]
    UnknownValue {
        /// Where.
        location: String,
        /// What it should name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is defined twice.
    #[error("{location} defines `{name}`, which is defined already")]
    MadeTwice {
        /// Where.
        location: String,
        /// The name.
        name: String,
    },
    /// A tensor without shape and type.
    #[error("{location}: tensor `{name}` is not in `tensor_values`")]
    NoTensorValue {
        /// Where.
        location: String,
        /// The tensor.
        name: String,
    },
    /// An argument that the operator does not have.
    #[error("{location}: the operator `{operator}` has no argument `{name}`")]
    UnknownArgument {
        /// Where.
        location: String,
        /// The operator.
        operator: String,
        /// The argument.
        name: String,
    },
    /// A size whose sympy text cannot be read.
    #[error("{location}: size `{text}`: {source}")]
    BadSize {
        /// Where.
        location: String,
        /// The text.
        text: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Graphs nest too deep.
    #[error("{location}: graphs nest more than {limit} levels deep")]
    GraphsTooDeep {
        /// Where.
        location: String,
        /// The limit.
        limit: usize,
    },
    /// The signature and the graph have different numbers of entries.
    #[error("{field}: found {found} entries, but {other} has {needed}")]
    WrongSpecCount {
        /// The signature's field.
        field: &'static str,
        /// How many entries it has.
        found: usize,
        /// The graph's field.
        other: &'static str,
        /// How many that has.
        needed: usize,
    },
    /// A symbol with an empty range.
    #[error("range_constraints[`{symbol}`]: min_val {least} is greater than max_val {most}")]
    EmptyRange {
        /// The symbol.
        symbol: String,
        /// Its minimum.
        least: i64,
        /// Its maximum.
        most: i64,
    },
    /// A graph is called with the wrong number of arguments.
    #[error("{location}: found {found} arguments for a graph that takes {needed}")]
    WrongGraphArguments {
        /// Where.
        location: String,
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
}

impl ArchiveError {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            ArchiveError::NotAnExport { .. } => {
                "write the file with torch.export.save(torch.export.export(model, inputs), \"model.pt2\"), or with vramfit.capture"
            }
            ArchiveError::UnknownSchema { .. } => "export the model with torch 2.8 to 2.15, or update vramfit",
            _ => "the archive may be truncated or edited; export it again with torch.export.save",
        }
    }
}
