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
        /// What the user can do about it.
        hint: String,
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
        /// What the user can do about it.
        hint: String,
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
        /// What the user can do about it.
        hint: String,
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
        /// What the user can do about it.
        hint: String,
    },
    /// A value beyond those a model was exported for.
    #[error("{flag}: {place} was exported for {range}, found {found}")]
    NotExported {
        /// What asked for it.
        flag: String,
        /// The symbol, or the dimension of an input.
        place: String,
        /// The values it may have.
        range: String,
        /// What was asked for.
        found: i64,
        /// What the user can do about it.
        hint: String,
    },
    /// A value that a size such as `2*h` does not take, whatever its symbol is.
    #[error(
        "{flag}: {place} must be a multiple of {step}{}, found {found}",
        if *rest == 0 { String::new() } else { format!(" plus {rest}") }
    )]
    NotAMultiple {
        /// What asked for it.
        flag: String,
        /// The dimension of an input.
        place: String,
        /// What the symbol is multiplied with.
        step: i64,
        /// What is left over.
        rest: i64,
        /// What was asked for.
        found: i64,
        /// The values next to it.
        near: String,
    },
    /// A size that the file does not tell, and that no flag gives.
    #[error(
        "size `{symbol}` is not known: {maker} makes it, by its data{}",
        most.map_or(String::new(), |most| format!(", {most} at most"))
    )]
    Untold {
        /// The symbol.
        symbol: String,
        /// What makes it.
        maker: String,
        /// The most that it may be.
        most: Option<i64>,
        /// What the user can do about it.
        hint: String,
    },
    /// A size for an archive that has none to choose.
    #[error("{flag}: the archive was exported at one size only: {present}")]
    ExportedAtOneSize {
        /// What asked for it.
        flag: String,
        /// The inputs' shapes.
        present: String,
        /// What the user can do about it.
        hint: String,
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
    pub fn hint(&self) -> Option<String> {
        use SizeError::*;
        let text = match self {
            UnknownName { hint, .. }
            | NoSymbol { hint, .. }
            | WrongRank { hint, .. }
            | WrongSize { hint, .. }
            | NotExported { hint, .. }
            | Untold { hint, .. }
            | ExportedAtOneSize { hint, .. } => return Some(hint.clone()),
            NotAMultiple { near, .. } => return Some(format!("the nearest that it can be: {near}")),
            Conflict { flag, other, .. } if flag == other => {
                "the inputs do not agree on what that is; give their shapes with --size INPUT=AxBxC"
            }
            Conflict { .. } => "give each size once",
            OutOfRange { .. } => "give the size of a batch or sequence that a GPU could hold",
            ExportedFixed { .. } => {
                "export again with an example of that size; torch.export fixes the length of what runs through a recurrent layer"
            }
            Malformed { .. } => "for example --size seq=128, or --size pixel_values=8x3x224x224",
            NotAnInput { .. } => "give a symbol one number; several numbers are for an input's whole shape",
        };
        Some(text.to_owned())
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
