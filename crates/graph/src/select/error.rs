//! Every way a choice can be bad, one variant each.
//!
//! A message says which flag, what was found and what there is; what to do about it is `hint`.

use thiserror::Error;

use super::sizes::SIZE_LIMIT;

/// Why sizes cannot be chosen so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A size below 1 or absurdly large.
    #[error("{flag}: found {found}, needed a size from 1 to {}", SIZE_LIMIT - 1)]
    OutOfRange {
        /// What asked for it.
        flag: String,
        /// The size.
        found: i64,
    },
    /// A name that is neither a symbol nor an input or target.
    #[error("{flag}: the model has no symbol, input or target `{name}`; {present}")]
    UnknownName {
        /// What asked for it.
        flag: String,
        /// The name.
        name: String,
        /// What there is.
        present: String,
    },
    /// No symbol stands where the flag looks for one.
    #[error("{flag}: no symbol stands in {place}; {present}")]
    NoSymbol {
        /// What asked for it.
        flag: String,
        /// Where it looked.
        place: &'static str,
        /// What there is.
        present: String,
    },
    /// A text that is not `NAME=SIZE` or `NAME=SIZExSIZE…`.
    #[error("--size {found}: needed SYMBOL=N or INPUT=AxBxC, with whole numbers")]
    Malformed {
        /// The text.
        found: String,
    },
    /// Several sizes for something that is one size.
    #[error("{flag}: {name} is one size, found {found}")]
    NotAnInput {
        /// What asked for it.
        flag: String,
        /// The symbol.
        name: String,
        /// How many sizes there are.
        found: usize,
    },
    /// As many sizes as the input does not have dimensions.
    #[error("{flag}: found {found} sizes, needed {needed}: `{name}` is {shape}")]
    WrongRank {
        /// What asked for it.
        flag: String,
        /// The input or target.
        name: String,
        /// How many sizes there are.
        found: usize,
        /// How many dimensions it has.
        needed: usize,
        /// Its shape.
        shape: String,
    },
    /// A dimension that has another size whatever is chosen.
    #[error("{flag}: dimension {dim} of `{name}` is {needed}, found {found}")]
    WrongSize {
        /// What asked for it.
        flag: String,
        /// The input or target.
        name: String,
        /// The dimension.
        dim: usize,
        /// The size asked for.
        found: i64,
        /// The size it has.
        needed: String,
    },
    /// A value beyond those a model was exported for.
    #[error("{flag}: symbol `{symbol}` was exported for {range}, found {found}")]
    NotExported {
        /// What asked for it.
        flag: String,
        /// The symbol.
        symbol: String,
        /// The values it may have.
        range: String,
        /// What was asked for.
        found: i64,
    },
    /// A size for an archive that has none to choose.
    #[error("{flag}: the archive was exported at one size only: {present}")]
    ExportedAtOneSize {
        /// What asked for it.
        flag: String,
        /// The inputs' shapes.
        present: String,
    },
    /// A size for an archive in which one of the inputs it is meant for has another for good.
    #[error("{flag}: the archive was exported with dimension {dim} of input `{input}` fixed at {fixed}")]
    ExportedFixed {
        /// What asked for it.
        flag: String,
        /// The input.
        input: String,
        /// Its dimension.
        dim: usize,
        /// Its size.
        fixed: i64,
    },
    /// Two flags that give one symbol different values.
    #[error("{flag} makes symbol `{symbol}` {found}, {other} makes it {other_found}")]
    Conflict {
        /// The later flag.
        flag: String,
        /// The symbol.
        symbol: String,
        /// What it asks for.
        found: i64,
        /// The earlier flag.
        other: String,
        /// What that asks for.
        other_found: i64,
    },
}

impl SizeError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        use SizeError::*;
        Some(match self {
            OutOfRange { .. } => "give the size of a batch or sequence that a GPU could hold",
            UnknownName { .. } | NoSymbol { .. } => {
                "name the sizes that may change when you capture: vramfit.capture(model, inputs, path, sizes={\"x\": (\"batch\", 3, \"h\", \"w\")})"
            }
            NotExported { .. } | ExportedAtOneSize { .. } => {
                "export again with that size left open: torch.export.export(model, args, dynamic_shapes={\"x\": {0: torch.export.Dim(\"batch\", max=4096)}})"
            }
            ExportedFixed { .. } => {
                "export again with an example of that size; torch.export fixes the length of what runs through a recurrent layer"
            }
            Malformed { .. } => "for example --size seq=128, or --size pixel_values=8x3x224x224",
            NotAnInput { .. } => "give a symbol one number; several numbers are for an input's whole shape",
            WrongRank { .. } | WrongSize { .. } => "capture the model again with an example of this shape",
            Conflict { .. } => "give each size once",
        })
    }
}

/// Why there is no variant for a choice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VariantError {
    /// It was not recorded.
    #[error("the capture has no recording of {wanted}; it has {present}")]
    NotRecorded {
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: String,
    },
    /// Autocast was recorded with single-precision weights, and others are asked for.
    #[error("--amp: found {found} weights, needed float32 ones: autocast is recorded with those")]
    AutocastWeights {
        /// The weights' types.
        found: String,
    },
}

impl VariantError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            VariantError::NotRecorded { .. } => {
                "the capture's notes say why a recording is missing; capture the model again with a newer vramfit"
            }
            VariantError::AutocastWeights { .. } => {
                "leave out --amp to train in the weights' own type; for autocast, say --dtype fp32 or leave out --dtype"
            }
        })
    }
}
