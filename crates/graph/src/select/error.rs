//! Why a choice of sizes or of a variant is refused.
//!
//! A message names the flag, what was found and what there is; `hint` says what to do about it.

use thiserror::Error;

/// Sizes must be below this.
pub const SIZE_LIMIT: i64 = 1 << 40;

/// Why sizes cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// A size outside the accepted range.
    #[error("{flag}: found {found}, needed a size from 1 to {}", SIZE_LIMIT - 1)]
    OutOfRange {
        /// The flag.
        flag: String,
        /// The size.
        found: i64,
    },
    /// A name that is neither a symbol nor an input or target.
    #[error("{flag}: the model has no symbol, input or target `{name}`; {present}")]
    UnknownName {
        /// The flag.
        flag: String,
        /// The name.
        name: String,
        /// What there is.
        present: String,
        /// What the user can do about it.
        hint: String,
    },
    /// The flag's dimension has no symbol.
    #[error("{flag}: no symbol in {location}; {present}")]
    NoSymbol {
        /// The flag.
        flag: String,
        /// The dimension it sets.
        location: &'static str,
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
        /// The flag.
        flag: String,
        /// The symbol.
        name: String,
        /// How many sizes there are.
        found: usize,
    },
    /// Another number of sizes than the input has dimensions.
    #[error("{flag}: found {found} sizes, needed {needed}: `{name}` is {shape}")]
    WrongRank {
        /// The flag.
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
    /// A dimension that no choice gives this size.
    #[error("{flag}: dimension {dim} of `{name}` is {needed}, found {found}")]
    WrongSize {
        /// The flag.
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
    /// A value outside the range a model was exported for.
    #[error("{flag}: {location} was exported for {range}, found {found}")]
    NotExported {
        /// The flag.
        flag: String,
        /// The symbol, or the dimension of an input.
        location: String,
        /// The values it may have.
        range: String,
        /// What was asked for.
        found: i64,
        /// What the user can do about it.
        hint: String,
    },
    /// A value that a size such as `2*h` cannot have.
    #[error(
        "{flag}: {location} must be a multiple of {step}{}, found {found}",
        if *rest == 0 { String::new() } else { format!(" plus {rest}") }
    )]
    NotAMultiple {
        /// The flag.
        flag: String,
        /// The dimension of an input.
        location: String,
        /// What the symbol is multiplied with.
        step: i64,
        /// What is left over.
        rest: i64,
        /// What was asked for.
        found: i64,
        /// The values next to it.
        near: String,
    },
    /// A size that the file does not have and no flag gives.
    #[error(
        "size `{symbol}` is not known: the data that {producer} gets decides it{}",
        most.map_or(String::new(), |most| format!(", {most} at most"))
    )]
    DataDependent {
        /// The symbol.
        symbol: String,
        /// What produces it.
        producer: String,
        /// The most that it may be.
        most: Option<i64>,
        /// What the user can do about it.
        hint: String,
    },
    /// A size for an archive that has none to choose.
    #[error("{flag}: the archive was exported at one size only: {present}")]
    ExportedAtOneSize {
        /// The flag.
        flag: String,
        /// The inputs' shapes.
        present: String,
        /// What the user can do about it.
        hint: String,
    },
    /// A size for an archive in which an input that should get it is fixed at another.
    #[error("{flag}: the archive was exported with dimension {dim} of input `{input}` fixed at {fixed}")]
    ExportedFixed {
        /// The flag.
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
        /// The value it asks for.
        found: i64,
        /// The earlier flag.
        other: String,
        /// The value that one asks for.
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
            | DataDependent { hint, .. }
            | ExportedAtOneSize { hint, .. } => return Some(hint.clone()),
            NotAMultiple { near, .. } => return Some(format!("the nearest possible: {near}")),
            Conflict { flag, other, .. } if flag == other => {
                "the inputs disagree about that size; give their shapes with --size INPUT=AxBxC"
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

/// Why no variant fits the flags.
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
