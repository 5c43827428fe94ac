//! How plain values are read: numbers, strings, lists, optional values, sizes, tensors.

use std::borrow::Cow;

use serde::de::{self, MapAccess, SeqAccess};

use super::read::{List, Object, Read, out_of_range};
use super::state::ParseState;
use super::text::TextId;
use crate::error::ReadError;
use vramfit_graph::model::{Size, TensorId};

impl<'de, Value: Read<'de>> Read<'de> for Vec<Value> {
    const NEEDED: &'static str = "a list";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        list.rest()
    }
}

impl<'de, Value: Read<'de>> Read<'de> for Option<Value> {
    const NEEDED: &'static str = Value::NEEDED;

    fn from_null<Error: de::Error>(_state: &ParseState) -> Result<Self, Error> {
        Ok(None)
    }

    fn from_bool<Error: de::Error>(state: &ParseState, value: bool) -> Result<Self, Error> {
        Value::from_bool(state, value).map(Some)
    }

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        Value::from_integer(state, value).map(Some)
    }

    fn from_float<Error: de::Error>(state: &ParseState, value: f64) -> Result<Self, Error> {
        Value::from_float(state, value).map(Some)
    }

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Value::from_text(state, text).map(Some)
    }

    fn from_borrowed<Error: de::Error>(state: &ParseState, text: &'de str) -> Result<Self, Error> {
        Value::from_borrowed(state, text).map(Some)
    }

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Value::from_list(list).map(Some)
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        Value::from_object(object).map(Some)
    }
}

/// Values by name, in the file's order.
pub(crate) struct Named<'de, Value>(pub(crate) Vec<(Cow<'de, str>, Value)>);

impl<'de, Value: Read<'de>> Read<'de> for Named<'de, Value> {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let mut values = Vec::new();
        while let Some(named) = object.named()? {
            values.push(named);
        }
        Ok(Named(values))
    }
}

impl<'de> Read<'de> for bool {
    const NEEDED: &'static str = "true or false";

    fn from_bool<Error: de::Error>(_state: &ParseState, value: bool) -> Result<Self, Error> {
        Ok(value)
    }
}

impl<'de> Read<'de> for i64 {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(_state: &ParseState, value: i64) -> Result<Self, Error> {
        Ok(value)
    }
}

impl<'de> Read<'de> for u32 {
    const NEEDED: &'static str = "an integer";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        u32::try_from(value).map_err(|_| out_of_range(state, value.into(), "a number from 0 to 4294967295"))
    }
}

impl<'de> Read<'de> for String {
    const NEEDED: &'static str = "a string";

    fn from_text<Error: de::Error>(_state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(text.to_owned())
    }
}

impl<'de> Read<'de> for Cow<'de, str> {
    const NEEDED: &'static str = "a string";

    fn from_text<Error: de::Error>(_state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn from_borrowed<Error: de::Error>(_state: &ParseState, text: &'de str) -> Result<Self, Error> {
        Ok(Cow::Borrowed(text))
    }
}

impl<'de> Read<'de> for TextId {
    const NEEDED: &'static str = "a string";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(state.text(text))
    }
}

impl<'de> Read<'de> for Size {
    const NEEDED: &'static str = "an integer or an expression";

    fn from_integer<Error: de::Error>(_state: &ParseState, value: i64) -> Result<Self, Error> {
        Ok(Size::Known(value))
    }

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        Ok(state.expression(text))
    }
}

impl<'de> Read<'de> for TensorId {
    const NEEDED: &'static str = "the number of a tensor";

    fn from_integer<Error: de::Error>(state: &ParseState, value: i64) -> Result<Self, Error> {
        u32::from_integer(state, value).map(TensorId)
    }

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        let digits = text.strip_prefix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits
            .and_then(|digits| digits.parse().ok())
            .map(TensorId)
            .ok_or_else(|| state.fail_with(text, |path, found| ReadError::BadTensor { path, found }))
    }
}
