//! Every way a model can fail to fit together, one variant each.

use thiserror::Error;

use vramfit_graph::expression::ParseError;

/// Why a model is inconsistent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A text that should be an expression and is not.
    #[error("{location}: expression `{text}`: {source}")]
    BadExpression {
        /// Where.
        location: String,
        /// The text.
        text: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// More symbols than any model has.
    #[error("symbols: found {found}; at most {limit} are read")]
    TooManySymbols {
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A symbol whose name is not valid in an expression.
    #[error("{location}: found `{found}`, needed a name of letters, digits and `_`")]
    BadSymbolName {
        /// Where.
        location: String,
        /// The name.
        found: String,
    },
    /// A symbol that is not the dimension it says it is.
    #[error("{location}: symbol `{symbol}` is not dimension {dim} of an input or target `{input}`")]
    SymbolNotThere {
        /// Where this is said.
        location: String,
        /// The symbol.
        symbol: String,
        /// The input it names.
        input: String,
        /// In which dimension.
        dim: usize,
    },
    /// Two things with one name.
    #[error("{table}: the {what} `{name}` occurs twice")]
    DuplicateName {
        /// The table.
        table: &'static str,
        /// What is named.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number that names nothing.
    #[error("{location} names {what} {found}, needed a number below {count}")]
    NoSuchNumber {
        /// Where.
        location: String,
        /// What it should name.
        what: &'static str,
        /// The number.
        found: u32,
        /// How many there are.
        count: usize,
    },
    /// A parameter, buffer, input or target with another number than its location gives it.
    #[error(
        "{location}: found tensor {found}, needed {needed}: parameters, buffers, inputs and targets are numbered in order"
    )]
    WrongTensorNumber {
        /// Where.
        location: String,
        /// Its number.
        found: u32,
        /// The number it should have.
        needed: u32,
    },
    /// A parameter or buffer that is moved to the GPU twice.
    #[error("{location} names tensor {tensor} for the second time")]
    MovedTwice {
        /// Where.
        location: String,
        /// The tensor.
        tensor: u32,
    },
    /// A parameter or buffer that is never moved to the GPU.
    #[error("move_order: tensor {tensor}, a parameter or buffer, is missing")]
    NeverMoved {
        /// The tensor.
        tensor: usize,
    },
    /// A size, stride or offset below zero.
    #[error("{location}: found {found}, needed 0 or more")]
    NegativeSize {
        /// Where.
        location: String,
        /// The size.
        found: i64,
    },
    /// As many sizes or strides as there are no dimensions.
    #[error("{location}: found {found} dimensions, needed {needed} as in the {of}")]
    WrongDimensionCount {
        /// Where.
        location: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        needed: usize,
        /// What has so many.
        of: &'static str,
    },
    /// More dimensions than a tensor can have.
    #[error("{location}: found {found} dimensions, needed at most {limit}")]
    TooManyDimensions {
        /// Where.
        location: String,
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A shape that is not the example's at the example's sizes.
    #[error("{location}: at the example's sizes it is {}, needed {needed}", found.map_or("nothing".to_owned(), |it| it.to_string()))]
    ExampleMismatch {
        /// Where.
        location: String,
        /// Its value.
        found: Option<i64>,
        /// The example's.
        needed: i64,
    },
    /// A parameter, buffer, input or target that has another shape in a variant.
    #[error("{location}: tensor {tensor} has shape {}, needed {needed:?} as it was given", shape_text(found))]
    ShapeMismatch {
        /// Where.
        location: String,
        /// The tensor.
        tensor: usize,
        /// The shape in the variant, at the example's sizes.
        found: Vec<Option<i64>>,
        /// The shape in its table.
        needed: Vec<i64>,
    },
    /// A section with fewer tensors than there are before the step.
    #[error("tensors[{section}]: found {found} tensors; parameters, buffers, inputs and targets alone are {needed}")]
    TooFewTensors {
        /// The section.
        section: usize,
        /// How many it has.
        found: usize,
        /// How many are given.
        needed: usize,
    },
    /// Nothing was recorded.
    #[error("variants: found none, needed at least one")]
    NoVariants,
    /// A recording of another assumption before the expected one.
    #[error("variants[{row}]: {name} is recorded for another assumption, needed what is expected before it")]
    NothingExpected {
        /// The variant.
        row: usize,
        /// Its precision and mode.
        name: String,
    },
    /// A precision and mode that occurs twice.
    #[error("variants[{row}]: {name} is already variants[{first}]")]
    DuplicateVariant {
        /// The later one.
        row: usize,
        /// Its precision and mode.
        name: String,
        /// The earlier one.
        first: usize,
    },
    /// A grad mode that its mode does not have.
    #[error("variants[{row}].grad: found {found}, needed {} for mode {mode}", !found)]
    WrongGradMode {
        /// The variant.
        row: usize,
        /// Its mode.
        mode: String,
        /// Its grad mode.
        found: bool,
    },
    /// A section that no variant uses.
    #[error("{table}[{section}]: no variant uses this section")]
    UnusedSection {
        /// The table.
        table: &'static str,
        /// The section.
        section: usize,
    },
    /// A call with more or fewer arguments than its operator takes.
    #[error("{location}: found {found} arguments, needed {needed}")]
    WrongArgumentCount {
        /// Where.
        location: String,
        /// How many there are.
        found: usize,
        /// How many the operator takes.
        needed: usize,
    },
    /// The backward of a function whose forward does not end at the step it names.
    #[error("{location}: step {found} does not end a custom function")]
    NotAFunctionEnd {
        /// Where.
        location: String,
        /// The index of the step.
        found: usize,
    },
    /// More regions within each other than any model has.
    #[error("{location}: regions nest more than {limit} levels deep")]
    RegionsTooDeep {
        /// Where.
        location: String,
        /// The limit.
        limit: usize,
    },
    /// A region that ends within another.
    #[error("{location}: found the end of {found}, needed that of {needed}, which began at {begin}")]
    WrongRegionEnd {
        /// Where.
        location: String,
        /// What ends.
        found: String,
        /// What should end.
        needed: String,
        /// Where that began.
        begin: String,
    },
    /// A region that ends without having begun.
    #[error("{location}: found the end of {found}, which has not begun")]
    EndWithoutBegin {
        /// Where.
        location: String,
        /// What ends.
        found: String,
    },
    /// A region that does not end.
    #[error("{location}: {region} begins here and never ends")]
    RegionNeverEnds {
        /// Where it begins.
        location: String,
        /// The region.
        region: String,
    },
    /// A tensor that is used and that nothing has made.
    #[error("{location} names tensor {tensor}, which no earlier step made")]
    UsedBeforeMade {
        /// Where.
        location: String,
        /// The tensor.
        tensor: u32,
    },
    /// A tensor that is used after Python freed it.
    #[error("{location} names tensor {tensor}, which was freed at {freed}")]
    UsedAfterFree {
        /// Where.
        location: String,
        /// The tensor.
        tensor: u32,
        /// Where it was freed.
        freed: String,
    },
    /// A size that is not valid.
    #[error("{path}: found {found}, needed {needed}")]
    OutOfRange {
        /// Where.
        path: String,
        /// What was found.
        found: i64,
        /// What was needed.
        needed: &'static str,
    },
}

fn shape_text(sizes: &[Option<i64>]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string())).collect();
    format!("[{}]", sizes.join(", "))
}
