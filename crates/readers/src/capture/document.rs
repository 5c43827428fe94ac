//! The capture's outermost object.

use serde::de::{self, MapAccess};

use super::table::{Buffers, Parameters};
use crate::error::ReadError;
use crate::json::{Object, ParseState, Read, Sections, fields};
use vramfit_graph::model::{
    FineTuned, Input, Mode, Model, Module, Operator, Origin, Precision, RecordedScript, Source, Step, Symbol, Tensor,
    TensorId, Type, Variant,
};
use vramfit_graph::select::choose;

/// The version of the format that is read.
const VERSION: i64 = 1;

/// Everything that the file says; its expressions are still texts.
pub(super) struct Document {
    pub(super) model: Model,
    /// The row of the variant whose sections were read, with those of its other assumptions; `None` if all were.
    pub(super) only: Option<usize>,
}

const KEYS: [&str; 19] = [
    "format",
    "version",
    "model",
    "symbols",
    "notes",
    "modules",
    "operators",
    "sources",
    "parameters",
    "buffers",
    "move_order",
    "inputs",
    "targets",
    "variants",
    "types",
    "tensors",
    "steps",
    "producer",
    "script",
];

impl<'de> Read<'de> for Document {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let mut parts = Parts::default();
        while let Some(at) = object.key(&KEYS)? {
            match at {
                0 => object.once("format", &mut parts.format)?,
                1 => object.once("version", &mut parts.version)?,
                2 => object.once("model", &mut parts.class)?,
                3 => object.once("symbols", &mut parts.symbols)?,
                4 => object.once("notes", &mut parts.notes)?,
                5 => object.once("modules", &mut parts.modules)?,
                6 => object.once("operators", &mut parts.operators)?,
                7 => object.once("sources", &mut parts.sources)?,
                8 => object.once("parameters", &mut parts.parameters)?,
                9 => object.once("buffers", &mut parts.buffers)?,
                10 => object.once("move_order", &mut parts.move_order)?,
                11 => object.once("inputs", &mut parts.inputs)?,
                12 => object.once("targets", &mut parts.targets)?,
                13 => object.once("variants", &mut parts.variants)?,
                14 => {
                    parts.need_only(object.state, |variant| variant.types);
                    object.once("types", &mut parts.types)?;
                }
                15 => {
                    parts.need_only(object.state, |variant| variant.tensors);
                    object.once("tensors", &mut parts.tensors)?;
                }
                16 => {
                    parts.need_only(object.state, |variant| variant.steps);
                    object.once("steps", &mut parts.steps)?;
                }
                17 => object.once("producer", &mut parts.producer)?,
                _ => object.once("script", &mut parts.script)?,
            }
        }
        let Format(origin) = object.take("format", parts.format)?;
        let Version = object.take("version", parts.version)?;
        let model = Model {
            origin,
            torch: parts.producer.and_then(|producer| producer.torch),
            class: object.take("model", parts.class)?,
            symbols: object.take("symbols", parts.symbols)?,
            expressions: Vec::new(),
            notes: object.take("notes", parts.notes)?,
            modules: object.take("modules", parts.modules)?,
            operators: object.take("operators", parts.operators)?,
            sources: object.take("sources", parts.sources)?,
            parameters: object.take("parameters", parts.parameters)?.0,
            buffers: object.take("buffers", parts.buffers)?.0,
            move_order: object.take("move_order", parts.move_order)?,
            inputs: object.take("inputs", parts.inputs)?,
            targets: object.take("targets", parts.targets)?,
            variants: object.take("variants", parts.variants)?,
            types: object.take("types", parts.types)?.0,
            tensors: object.take("tensors", parts.tensors)?.0,
            steps: object.take("steps", parts.steps)?.0,
            fine_tuning: FineTuned::default(),
            script: parts.script,
        };
        Ok(Document { model, only: parts.only })
    }
}

/// What was read so far.
#[derive(Default)]
struct Parts {
    format: Option<Format>,
    version: Option<Version>,
    class: Option<String>,
    symbols: Option<Vec<Symbol>>,
    notes: Option<Vec<String>>,
    modules: Option<Vec<Module>>,
    operators: Option<Vec<Operator>>,
    sources: Option<Vec<Source>>,
    parameters: Option<Parameters>,
    buffers: Option<Buffers>,
    move_order: Option<Vec<TensorId>>,
    inputs: Option<Vec<Input>>,
    targets: Option<Vec<Input>>,
    variants: Option<Vec<Variant>>,
    types: Option<Sections<Type>>,
    tensors: Option<Sections<Tensor>>,
    steps: Option<Sections<Step>>,
    producer: Option<Producer>,
    script: Option<RecordedScript>,
    only: Option<usize>,
}

impl Parts {
    /// Has the sections that come next read only where the variant that is wanted uses them, or the same under another
    /// assumption: `number` is that of its section. If they come before the key that decides which variant that is, all are read.
    fn need_only(&mut self, state: &ParseState, number: impl Fn(&Variant) -> usize) {
        let is_first = self.types.is_none() && self.tensors.is_none() && self.steps.is_none();
        if is_first
            && let Some(flags) = state.wanted
            && let (Some(Parameters(parameters)), Some(Buffers(buffers)), Some(inputs), Some(variants)) =
                (&self.parameters, &self.buffers, &self.inputs, &self.variants)
        {
            let present: Vec<(Precision, Mode)> = variants.iter().map(|it| (it.precision, it.mode)).collect();
            self.only = choose(parameters.iter().chain(buffers), inputs, &present, flags).ok();
        }
        let chosen = self.only.zip(self.variants.as_ref()).map(|(only, variants)| {
            variants.iter().filter(|variant| variant.is_of_same_training(&variants[only])).map(number).collect()
        });
        state.need_only(chosen);
    }
}

/// What wrote the file.
struct Producer {
    torch: Option<String>,
}

impl<'de> Read<'de> for Producer {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {}, optional { "torch" => torch });
        Ok(Producer { torch })
    }
}

/// Format and version alone.
pub(super) struct Head;

impl<'de> Read<'de> for Head {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "format" => format, "version" => version });
        let (Format(_), Version): (Format, Version) = (format, version);
        Ok(Head)
    }
}

/// The kind of file, by the name of its format.
struct Format(Origin);

impl<'de> Read<'de> for Format {
    const NEEDED: &'static str = "the string \"vramfit-capture\" or \"vramfit-recording\"";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "vramfit-capture" => Ok(Format(Origin::Capture)),
            "vramfit-recording" => Ok(Format(Origin::Script)),
            _ => Err(state.fail_with(text, |_, found| ReadError::WrongFormat { found })),
        }
    }
}

struct Version;

impl<'de> Read<'de> for Version {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        if value == VERSION {
            return Ok(Version);
        }
        Err(state.fail(move |_| ReadError::UnknownVersion { found: value, known: VERSION }))
    }
}
