//! Every way a file can be no readable model, one variant each.
//!
//! A message says where, what was found and what was needed, but not which file: the caller knows its name. What to do
//! about it is [`ReadError::hint`].

use std::io;

use thiserror::Error;

use super::Kind;
use crate::expression::ParseError;

/// Why a file is not a readable model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The `config.json` asks for what is not modelled.
    #[error(transparent)]
    Config(#[from] super::ConfigError),
    /// The `model.toml` is none.
    #[error(transparent)]
    Sketch(#[from] super::SketchError),
    /// The operating system could not give the file's bytes.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file has no bytes, or only spaces.
    #[error("the file is empty, needed {needed}")]
    Empty {
        /// What its name promises.
        needed: Kind,
    },
    /// The first bytes are no model's.
    #[error("byte 0: found {found}, needed {needed}")]
    NotAModel {
        /// The first bytes, or what they are known to begin.
        found: String,
        /// What its name promises.
        needed: Kind,
    },
    /// A JSON object of neither kind.
    #[error(
        "found a JSON object with neither `model_type`, as a config.json of Hugging Face has, nor `format`, as a capture"
    )]
    UnknownObject,
    /// The gzip layer is damaged or ends too early.
    #[error("gzip: after {offset} decompressed bytes: {source}")]
    Gzip {
        /// How many bytes had come out before.
        offset: u64,
        /// What the decompressor said.
        source: io::Error,
    },
    /// Bytes follow the gzip member.
    #[error("{count} more bytes follow the compressed capture, which should be all there is")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// More bytes than a capture may have.
    #[error("the file has more than {limit} bytes, decompressed if it is gzip; at most that many are read")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The text is not UTF-8.
    #[error("byte {offset}: the text is not UTF-8 from here on")]
    NotText {
        /// Where it goes wrong, in the decompressed text.
        offset: usize,
    },
    /// The JSON ends too early.
    #[error("{path}: the JSON ends here, after {length} bytes, without an end")]
    TruncatedJson {
        /// Where the reader was.
        path: String,
        /// The length of the text.
        length: usize,
    },
    /// The JSON is none.
    #[error("{path}: line {line}, column {column}: {message}")]
    InvalidJson {
        /// Where the reader was.
        path: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// Lists within lists within lists.
    #[error("lists and objects nest more than {limit} levels deep")]
    NestedTooDeeply {
        /// The limit.
        limit: usize,
    },
    /// More values than a capture may have.
    #[error("{path}: the file holds more than {limit} values; at most that many are read")]
    TooManyValues {
        /// Where the reader was.
        path: String,
        /// The limit.
        limit: u32,
    },
    /// Another format.
    #[error("format: found `{found}`, needed `vramfit-capture`")]
    WrongFormat {
        /// What the file says it is.
        found: String,
    },
    /// Another version.
    #[error("version: found {found}; this vramfit reads version {known}")]
    UnknownVersion {
        /// What the file says.
        found: i64,
        /// What is known.
        known: i64,
    },
    /// A value of the wrong type.
    #[error("{path}: found {found}, needed {needed}")]
    WrongType {
        /// Where.
        path: String,
        /// What was found.
        found: &'static str,
        /// What was needed.
        needed: &'static str,
    },
    /// A key that cannot be done without.
    #[error("{path}: the key `{key}` is missing")]
    MissingKey {
        /// The object.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A key that stands there twice.
    #[error("{path}: the key `{key}` stands there twice")]
    DuplicateKey {
        /// The object.
        path: String,
        /// The key.
        key: &'static str,
    },
    /// A list that is too short.
    #[error("{path}: found {found} elements; {needed} is missing")]
    MissingElement {
        /// The list.
        path: String,
        /// How many elements it has.
        found: usize,
        /// What is missing.
        needed: &'static str,
    },
    /// A list that is too long.
    #[error("{path}: found more than {needed} elements; the rest has no meaning there")]
    ExtraElement {
        /// The list.
        path: String,
        /// How many elements have a meaning.
        needed: usize,
    },
    /// An argument of a kind that is not known.
    #[error("{path}: found an object of an unknown kind, needed one with one of the keys {}", known.join(", "))]
    UnknownKind {
        /// Where.
        path: String,
        /// The kinds that are known.
        known: &'static [&'static str],
    },
    /// An argument that says two things.
    #[error("{path}: found an object with several keys, needed one")]
    ExtraKey {
        /// Where.
        path: String,
    },
    /// A number that cannot be.
    #[error("{path}: found {found}, needed {needed}")]
    OutOfRange {
        /// Where.
        path: String,
        /// The number.
        found: i128,
        /// What was needed.
        needed: &'static str,
    },
    /// A word that is not known.
    #[error("{path}: found `{found}`, needed {needed}")]
    UnknownWord {
        /// Where.
        path: String,
        /// The word.
        found: String,
        /// The words that are known.
        needed: &'static str,
    },
    /// An element type that is not known.
    #[error("{path}: found the dtype `{found}`, which is not known")]
    UnknownDtype {
        /// Where.
        path: String,
        /// Its name.
        found: String,
    },
    /// A text that should name a tensor and does not.
    #[error("{path}: found `{found}`, needed a tensor such as `%12`")]
    BadTensor {
        /// Where.
        path: String,
        /// The text.
        found: String,
    },
    /// A text that should be an expression and is not.
    #[error("{place}: expression `{text}`: {source}")]
    BadExpression {
        /// Where.
        place: String,
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
    /// A symbol whose name could not stand in an expression.
    #[error("{place}: found `{found}`, needed a name of letters, digits and `_`")]
    BadSymbolName {
        /// Where.
        place: String,
        /// The name.
        found: String,
    },
    /// A symbol that is said to stand where it does not.
    #[error("{place}: symbol `{symbol}` does not stand in dimension {dim} of an input or target `{input}`")]
    SymbolNotThere {
        /// Where this is said.
        place: String,
        /// The symbol.
        symbol: String,
        /// Where it is said to stand.
        input: String,
        /// In which dimension.
        dim: usize,
    },
    /// Two things with one name.
    #[error("{table}: the {what} `{name}` stands there twice")]
    DuplicateName {
        /// The table.
        table: &'static str,
        /// What is named.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A number that names nothing.
    #[error("{place} names {what} {found}, needed a number below {count}")]
    NoSuchNumber {
        /// Where.
        place: String,
        /// What it should name.
        what: &'static str,
        /// The number.
        found: u32,
        /// How many there are.
        count: usize,
    },
    /// A parameter, buffer, input or target with another number than its place gives it.
    #[error(
        "{place}: found tensor {found}, needed {needed}: parameters, buffers, inputs and targets are numbered in order"
    )]
    WrongTensorNumber {
        /// Where.
        place: String,
        /// Its number.
        found: u32,
        /// The number it should have.
        needed: u32,
    },
    /// A parameter or buffer that is moved to the GPU twice.
    #[error("{place} names tensor {tensor} for the second time")]
    MovedTwice {
        /// Where.
        place: String,
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
    #[error("{place}: found {found}, needed 0 or more")]
    NegativeSize {
        /// Where.
        place: String,
        /// The size.
        found: i64,
    },
    /// As many sizes or strides as there are no dimensions.
    #[error("{place}: found {found} dimensions, needed {needed} as in the {of}")]
    WrongDimensionCount {
        /// Where.
        place: String,
        /// How many there are.
        found: usize,
        /// How many there should be.
        needed: usize,
        /// What has so many.
        of: &'static str,
    },
    /// More dimensions than a tensor can have.
    #[error("{place}: found {found} dimensions, needed at most {limit}")]
    TooManyDimensions {
        /// Where.
        place: String,
        /// How many.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// A shape that is not the example's at the example's sizes.
    #[error("{place}: at the example's sizes it is {}, needed {needed}", found.map_or("nothing".to_owned(), |it| it.to_string()))]
    ExampleMismatch {
        /// Where.
        place: String,
        /// Its value.
        found: Option<i64>,
        /// The example's.
        needed: i64,
    },
    /// A parameter, buffer, input or target that has another shape in a variant.
    #[error("{place}: tensor {tensor} has shape {}, needed {needed:?} as it was given", shape_text(found))]
    ShapeMismatch {
        /// Where.
        place: String,
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
    /// A precision and mode that stands there twice.
    #[error("variants[{row}]: {name} stands there already, as variants[{first}]")]
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
    #[error("{place}: found {found} arguments, needed {needed}")]
    WrongArgumentCount {
        /// Where.
        place: String,
        /// How many there are.
        found: usize,
        /// How many the operator takes.
        needed: usize,
    },
    /// More regions within each other than any model has.
    #[error("{place}: regions nest more than {limit} levels deep")]
    RegionsTooDeep {
        /// Where.
        place: String,
        /// The limit.
        limit: usize,
    },
    /// A region that ends within another.
    #[error("{place}: found the end of {found}, needed that of {needed}, which began at {begin}")]
    WrongRegionEnd {
        /// Where.
        place: String,
        /// What ends.
        found: String,
        /// What should end.
        needed: String,
        /// Where that began.
        begin: String,
    },
    /// A region that ends without having begun.
    #[error("{place}: found the end of {found}, which has not begun")]
    EndWithoutBegin {
        /// Where.
        place: String,
        /// What ends.
        found: String,
    },
    /// A region that does not end.
    #[error("{place}: {region} begins here and never ends")]
    RegionNeverEnds {
        /// Where it begins.
        place: String,
        /// The region.
        region: String,
    },
    /// What is wrong with one entry of an archive.
    #[error("{entry}: {source}")]
    InEntry {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        source: Box<ReadError>,
    },
    /// A zip archive without the record that ends one.
    #[error("zip: no end record in the last bytes of the file's {length}")]
    ZipWithoutEnd {
        /// The file's length.
        length: u64,
    },
    /// A zip archive that says something lies beyond its end.
    #[error("zip: bytes {begin} to {} are needed, the file has {length}", begin.saturating_add(*count))]
    ZipTruncated {
        /// Where the bytes begin.
        begin: u64,
        /// How many there are.
        count: u64,
        /// The file's length.
        length: u64,
    },
    /// A zip archive that contradicts itself.
    #[error("zip: {what}")]
    ZipDamaged {
        /// How.
        what: String,
    },
    /// A zip archive with more entries than any model's.
    #[error("zip: its list of entries has {found} bytes; at most {limit} are read")]
    ZipListTooLong {
        /// Its length.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A zip archive without an entry that is needed.
    #[error("zip: the entry `{entry}` is missing")]
    ZipEntryMissing {
        /// The entry.
        entry: String,
    },
    /// An entry that is packed in a way that is not read.
    #[error("zip: entry `{entry}`: found {found}, needed a stored or deflated one")]
    ZipMethod {
        /// The entry.
        entry: String,
        /// How it is packed.
        found: String,
    },
    /// An entry that is longer than any model's.
    #[error("zip: entry `{entry}` has more than {limit} bytes, unpacked; at most that many are read")]
    ZipEntryTooLarge {
        /// The entry.
        entry: String,
        /// The limit.
        limit: u64,
    },
    /// An entry that unpacks to more than it says.
    #[error("zip: entry `{entry}` has more than {announced} bytes, unpacked; it announced that many")]
    ZipUnpacksToMore {
        /// The entry.
        entry: String,
        /// How many it announced.
        announced: u64,
    },
    /// An entry whose compressed bytes are damaged.
    #[error("zip: entry `{entry}`: after {offset} unpacked bytes: {source}")]
    ZipDeflate {
        /// The entry.
        entry: String,
        /// How many bytes had come out before.
        offset: u64,
        /// What the decompressor said.
        source: io::Error,
    },
    /// An entry that has another length than is said.
    #[error("zip: entry `{entry}` has {found} bytes, unpacked; {needed} were announced")]
    ZipWrongLength {
        /// The entry.
        entry: String,
        /// How many there are.
        found: u64,
        /// How many there should be.
        needed: u64,
    },
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
    /// A tensor that is used and that nothing has made.
    #[error("{place} names tensor {tensor}, which nothing has made before")]
    UsedBeforeMade {
        /// Where.
        place: String,
        /// The tensor.
        tensor: u32,
    },
    /// A tensor that is used after Python has let go of it.
    #[error("{place} names tensor {tensor}, which was let go of at {freed}")]
    UsedAfterFree {
        /// Where.
        place: String,
        /// The tensor.
        tensor: u32,
        /// Where it was let go of.
        freed: String,
    },
}

fn shape_text(sizes: &[Option<i64>]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| size.map_or("?".to_owned(), |size| size.to_string())).collect();
    format!("[{}]", sizes.join(", "))
}

impl ReadError {
    /// The same, within an entry of an archive.
    pub(super) fn within(self, entry: &str) -> ReadError {
        ReadError::InEntry { entry: entry.to_owned(), source: Box::new(self) }
    }

    /// Whether the file is of another format or version.
    pub(super) fn is_about_version(&self) -> bool {
        matches!(self, ReadError::WrongFormat { .. } | ReadError::UnknownVersion { .. })
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ReadError::Io(_) => return None,
            ReadError::Config(_) => {
                "capture the model in Python: vramfit.capture(model, inputs, \"model.vramfit\"); docs/config-json.md says what is modelled"
            }
            ReadError::Sketch(_) => "docs/model-toml.md shows what a model.toml holds",
            ReadError::InEntry { source, .. } => match **source {
                ReadError::UnknownSchema { .. } | ReadError::UnknownDtype { .. } => return source.hint(),
                ReadError::TooManyValues { .. } | ReadError::TooManySymbols { .. } => {
                    "no model needs that much; export the model again with torch.export.save"
                }
                _ => "the archive may be truncated or edited; export it again with torch.export.save",
            },
            ReadError::NotAnExport { .. } => {
                "write the file with torch.export.save(torch.export.export(model, inputs), \"model.pt2\"), or with vramfit.capture"
            }
            ReadError::UnknownSchema { .. } => "export the model with torch 2.8 to 2.15, or update vramfit",
            ReadError::ZipEntryTooLarge { .. } | ReadError::ZipListTooLong { .. } => {
                "no model needs that much; export the model again with torch.export.save"
            }
            ReadError::ZipMethod { .. } => "leave the archive as torch.export.save writes it",
            ReadError::ZipWithoutEnd { .. }
            | ReadError::ZipTruncated { .. }
            | ReadError::ZipDamaged { .. }
            | ReadError::ZipEntryMissing { .. }
            | ReadError::ZipDeflate { .. }
            | ReadError::ZipUnpacksToMore { .. }
            | ReadError::ZipWrongLength { .. } => {
                "the archive may be truncated or damaged; copy it again, or export it again with torch.export.save"
            }
            ReadError::NotAModel { needed, .. } | ReadError::Empty { needed } => needed.hint(),
            ReadError::UnknownObject => Kind::Unknown.hint(),
            ReadError::WrongFormat { .. } => Kind::Capture.hint(),
            ReadError::UnknownVersion { found, known } if found > known => {
                "the file was written by a newer vramfit; update this one, or capture the model again with the Python package beside it"
            }
            ReadError::UnknownVersion { .. } => "capture the model again with the Python package beside this vramfit",
            ReadError::Gzip { .. }
            | ReadError::TrailingBytes { .. }
            | ReadError::NotText { .. }
            | ReadError::TruncatedJson { .. }
            | ReadError::InvalidJson { .. } => "the file may be truncated or damaged; copy it or make it again",
            ReadError::TooLarge { .. } | ReadError::TooManyValues { .. } => {
                "no model needs that much; is this the right file?"
            }
            ReadError::UnknownDtype { .. } => "cast the model or its inputs to a type that is known, such as float32",
            _ => "captures are not made to be edited; if vramfit.capture itself wrote this file, please report it",
        })
    }
}
