//! Arguments of calls.

use serde::de::{self, MapAccess, SeqAccess};

use crate::error::ReadError;
use crate::json::{List, Object, ParseState, Read};
use vramfit_graph::model::{Argument, MemoryFormat, Size, TensorId};

impl<'de> Read<'de> for Argument {
    const NEEDED: &'static str = "an argument";

    fn from_null<Error: de::Error>(_state: &ParseState) -> Result<Self, Error> {
        Ok(Argument::None)
    }

    fn from_bool<Error: de::Error>(_state: &ParseState, value: bool) -> Result<Self, Error> {
        Ok(Argument::Bool(value))
    }

    fn from_integer<Error: de::Error>(_state: &ParseState, value: i64) -> Result<Self, Error> {
        Ok(Argument::Int(Size::Known(value)))
    }

    fn from_float<Error: de::Error>(_state: &ParseState, value: f64) -> Result<Self, Error> {
        Ok(Argument::Float(value))
    }

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        if text.starts_with('%') {
            TensorId::from_text(state, text).map(Argument::Tensor)
        } else {
            Ok(Argument::Int(state.expression(text)))
        }
    }

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        list.rest().map(Argument::List)
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let value = match object.only_key(&KINDS)? {
            0 => Argument::Text(object.value()?),
            1 => Argument::Dtype(object.value()?),
            2 => object.value::<Device>()?.0,
            3 => Argument::MemoryFormat(object.value()?),
            4 => Argument::Float(object.value::<Special>()?.0),
            _ => {
                object.skip()?;
                Argument::Other
            }
        };
        object.end()?;
        Ok(value)
    }
}

/// What an object that is an argument may say; after the fifth, nothing that decides memory.
const KINDS: [&str; 9] =
    ["string", "dtype", "device", "memory_format", "float", "layout", "generator", "complex", "other"];

struct Device(Argument);

impl<'de> Read<'de> for Device {
    const NEEDED: &'static str = "a device";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "cuda" => Ok(Device(Argument::Device { is_host: false })),
            "cpu" => Ok(Device(Argument::Device { is_host: true })),
            _ => Err(unknown_word(state, text, "`cuda` or `cpu`")),
        }
    }
}

impl<'de> Read<'de> for MemoryFormat {
    const NEEDED: &'static str = "a memory format";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "contiguous" => Ok(MemoryFormat::Contiguous),
            "preserve" => Ok(MemoryFormat::Preserve),
            "channels_last" => Ok(MemoryFormat::ChannelsLast),
            "channels_last_3d" => Ok(MemoryFormat::ChannelsLast3d),
            _ => Err(unknown_word(state, text, "`contiguous`, `preserve`, `channels_last` or `channels_last_3d`")),
        }
    }
}

/// A float that JSON has no digits for.
struct Special(f64);

impl<'de> Read<'de> for Special {
    const NEEDED: &'static str = "a word for a float";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "inf" => Ok(Special(f64::INFINITY)),
            "-inf" => Ok(Special(f64::NEG_INFINITY)),
            "nan" => Ok(Special(f64::NAN)),
            _ => Err(unknown_word(state, text, "`inf`, `-inf` or `nan`")),
        }
    }
}

pub(super) fn unknown_word<Error: de::Error>(state: &ParseState, found: &str, needed: &'static str) -> Error {
    state.fail_with(found, move |path, found| ReadError::UnknownWord { path, found, needed })
}
