//! Every way an archive can hold no exported program, one variant each.

use thiserror::Error;

/// Why an archive holds no model.
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
    /// A name that nothing has.
    #[error("{place} names {what} `{name}`, which no input or node defines")]
    UnknownValue {
        /// Where.
        place: String,
        /// What it should name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is given twice.
    #[error("{place} makes `{name}`, which is there already")]
    MadeTwice {
        /// Where.
        place: String,
        /// The name.
        name: String,
    },
    /// A tensor without shape and type.
    #[error("{place}: `tensor_values` says nothing about tensor `{name}`")]
    NoTensorValue {
        /// Where.
        place: String,
        /// The tensor.
        name: String,
    },
    /// An argument that the operator does not have.
    #[error("{place}: the operator `{operator}` has no argument `{name}`")]
    UnknownArgument {
        /// Where.
        place: String,
        /// The operator.
        operator: String,
        /// The argument.
        name: String,
    },
    /// A text that should be a sympy expression and is not one that is known.
    #[error("{place}: size `{text}`: {message}")]
    BadSize {
        /// Where.
        place: String,
        /// The text.
        text: String,
        /// What is wrong with it.
        message: String,
    },
    /// Graphs within graphs within graphs.
    #[error("{place}: graphs nest more than {limit} levels deep")]
    GraphsTooDeep {
        /// Where.
        place: String,
        /// The limit.
        limit: usize,
    },
    /// A signature that says more or less than the graph has.
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
    /// A symbol that may have no value.
    #[error("range_constraints[`{symbol}`]: min_val {least} is greater than max_val {most}")]
    EmptyRange {
        /// The symbol.
        symbol: String,
        /// The least it may be.
        least: i64,
        /// The most it may be.
        most: i64,
    },
    /// A graph that is given other arguments than it takes.
    #[error("{place}: found {found} arguments for a graph that takes {needed}")]
    WrongGraphArguments {
        /// Where.
        place: String,
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
