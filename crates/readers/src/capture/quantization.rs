//! How a weight is quantised.

use serde::de::{self, MapAccess};

use super::argument::unknown_word;
use crate::json::{Object, ParseState, Read, fields};
use vramfit_graph::model::{Quantization, Scheme};

/// The name of a scheme.
enum SchemeName {
    FourBit,
    EightBit,
}

impl<'de> Read<'de> for SchemeName {
    const NEEDED: &'static str = "\"nf4\", \"fp4\" or \"int8\"";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            // The two differ in the table of values alone.
            "nf4" | "fp4" => Ok(SchemeName::FourBit),
            "int8" => Ok(SchemeName::EightBit),
            _ => Err(unknown_word(state, text, "`nf4`, `fp4` or `int8`")),
        }
    }
}

impl<'de> Read<'de> for Quantization {
    const NEEDED: &'static str = "how a weight is quantised";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "scheme" => scheme, "shape" => shape, "dtype" => dtype, "states" => states,
            "moved_packed" => is_moved_packed,
        }, optional { "blocksize" => block, "nested" => is_nested });
        let scheme = match scheme {
            SchemeName::EightBit => Scheme::EightBit,
            SchemeName::FourBit => Scheme::FourBit {
                block: object.take("blocksize", block)?,
                is_nested: object.take("nested", is_nested)?,
            },
        };
        Ok(Quantization { scheme, shape, dtype, states, is_moved_packed })
    }
}
