//! The capture's outermost object.

use serde::de::{self, MapAccess};

use super::VERSION;
use super::table::{Buffer, Parameter};
use crate::model::{Model, Origin, Weight};
use crate::read::ReadError;
use crate::read::json::context::Context;
use crate::read::json::{Object, Read, fields};

/// Everything that the file says.
pub(super) struct Document(Model);

impl Document {
    /// The model, and the texts of its expressions, which are still to be parsed.
    pub(super) fn into_model(self, context: &Context) -> (Model, Vec<Box<str>>) {
        (self.0, context.take_expressions())
    }
}

impl Read for Document {
    const NEEDED: &'static str = "an object";

    fn from_object<'de, Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "format" => format, "version" => version, "model" => class, "symbols" => symbols, "notes" => notes,
            "modules" => modules, "operators" => operators, "sources" => sources, "parameters" => parameters,
            "buffers" => buffers, "move_order" => move_order, "inputs" => inputs, "targets" => targets,
            "variants" => variants, "types" => types, "tensors" => tensors, "steps" => steps,
        });
        let (Format, Version): (Format, Version) = (format, version);
        let (parameters, buffers): (Vec<Parameter>, Vec<Buffer>) = (parameters, buffers);
        let parameters: Vec<Weight> = parameters.into_iter().map(|Parameter(weight)| weight).collect();
        let buffers: Vec<Weight> = buffers.into_iter().map(|Buffer(weight)| weight).collect();
        Ok(Document(Model {
            origin: Origin::Capture,
            class,
            symbols,
            expressions: Vec::new(),
            notes,
            modules,
            operators,
            sources,
            parameters,
            buffers,
            move_order,
            inputs,
            targets,
            variants,
            types,
            tensors,
            steps,
        }))
    }
}

/// Format and version alone.
pub(super) struct Head;

impl Read for Head {
    const NEEDED: &'static str = "an object";

    fn from_object<'de, Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "format" => format, "version" => version });
        let (Format, Version): (Format, Version) = (format, version);
        Ok(Head)
    }
}

struct Format;

impl Read for Format {
    const NEEDED: &'static str = "the string \"vramfit-capture\"";

    fn from_text<Error: de::Error>(context: &Context, text: &str) -> Result<Self, Error> {
        if text == "vramfit-capture" {
            return Ok(Format);
        }
        Err(context.fail_with(text, |_, found| ReadError::WrongFormat { found }))
    }
}

struct Version;

impl Read for Version {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(context: &Context, value: i64) -> Result<Self, Error> {
        if value == VERSION {
            return Ok(Version);
        }
        Err(context.fail(move |_| ReadError::UnknownVersion { found: value, known: VERSION }))
    }
}
