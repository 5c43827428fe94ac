//! The trait of types that can be read from JSON, and the one visitor that reads them all.
//!
//! A type implements those methods of [`Read`] that fit what it accepts. Anything else is a [`ReadError::WrongType`] with the
//! path, what was found and what was needed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::state::{ParseState, Segment};
use crate::error::ReadError;

/// A value that can be read from JSON, and may borrow from its text.
pub(crate) trait Read<'de>: Sized {
    /// What is needed, for messages.
    const NEEDED: &'static str;

    fn from_null<Error: de::Error>(state: &ParseState) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(state, "null"))
    }

    fn from_bool<Error: de::Error>(state: &ParseState, _value: bool) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(state, "a boolean"))
    }

    fn from_integer<Error: de::Error>(state: &ParseState, _value: i64) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(state, "an integer"))
    }

    fn from_float<Error: de::Error>(state: &ParseState, _value: f64) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(state, "a number with a fraction or beyond 64 bits"))
    }

    fn from_text<Error: de::Error>(state: &ParseState, _text: &str) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(state, "a string"))
    }

    /// A string without escapes, which can be borrowed from the file.
    fn from_borrowed<Error: de::Error>(state: &ParseState, text: &'de str) -> Result<Self, Error> {
        Self::from_text(state, text)
    }

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Err(wrong_type::<Self, Access::Error>(list.state, "a list"))
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        Err(wrong_type::<Self, Access::Error>(object.state, "an object"))
    }
}

fn wrong_type<'de, Value: Read<'de>, Error: de::Error>(state: &ParseState, found: &'static str) -> Error {
    state.fail(move |path| ReadError::WrongType { path, found, needed: Value::NEEDED })
}

/// Reads one value.
pub(crate) struct Seed<'c, Value> {
    state: &'c ParseState,
    value: PhantomData<Value>,
}

impl<'c, Value> Seed<'c, Value> {
    pub(crate) fn new(state: &'c ParseState) -> Self {
        Seed { state, value: PhantomData }
    }
}

impl<'de, Value: Read<'de>> DeserializeSeed<'de> for Seed<'_, Value> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, Value: Read<'de>> Visitor<'de> for Seed<'_, Value> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(Value::NEEDED)
    }

    fn visit_unit<Error: de::Error>(self) -> Result<Value, Error> {
        Value::from_null(self.state)
    }

    fn visit_bool<Error: de::Error>(self, value: bool) -> Result<Value, Error> {
        Value::from_bool(self.state, value)
    }

    fn visit_i64<Error: de::Error>(self, value: i64) -> Result<Value, Error> {
        Value::from_integer(self.state, value)
    }

    fn visit_u64<Error: de::Error>(self, value: u64) -> Result<Value, Error> {
        match i64::try_from(value) {
            Ok(value) => Value::from_integer(self.state, value),
            Err(_) => Err(out_of_range(self.state, value.into(), "a number up to 9223372036854775807")),
        }
    }

    fn visit_f64<Error: de::Error>(self, value: f64) -> Result<Value, Error> {
        Value::from_float(self.state, value)
    }

    fn visit_str<Error: de::Error>(self, text: &str) -> Result<Value, Error> {
        Value::from_text(self.state, text)
    }

    fn visit_borrowed_str<Error: de::Error>(self, text: &'de str) -> Result<Value, Error> {
        Value::from_borrowed(self.state, text)
    }

    fn visit_seq<Access: SeqAccess<'de>>(self, access: Access) -> Result<Value, Access::Error> {
        let mut list = List { state: self.state, access, count: 0 };
        let value = Value::from_list(&mut list)?;
        list.end()?;
        Ok(value)
    }

    fn visit_map<Access: MapAccess<'de>>(self, access: Access) -> Result<Value, Access::Error> {
        Value::from_object(&mut Object { state: self.state, access, segment: Segment::Key("") })
    }
}

/// A list being read.
pub(crate) struct List<'c, Access> {
    pub(crate) state: &'c ParseState,
    access: Access,
    count: usize,
}

impl<'de, Access: SeqAccess<'de>> List<'_, Access> {
    /// The next element, if there is one.
    pub(crate) fn next<Value: Read<'de>>(&mut self) -> Result<Option<Value>, Access::Error> {
        self.state.count()?;
        match self.access.next_element_seed(Seed::new(self.state)) {
            Ok(value) => {
                self.count += usize::from(value.is_some());
                Ok(value)
            }
            Err(error) => {
                self.state.within(Segment::Index(self.count));
                Err(error)
            }
        }
    }

    /// The next element, which must be there.
    pub(crate) fn required<Value: Read<'de>>(&mut self, needed: &'static str) -> Result<Value, Access::Error> {
        let found = self.count;
        let missing = || self.state.fail(move |path| ReadError::MissingElement { path, found, needed });
        self.next()?.ok_or_else(missing)
    }

    /// All elements that are left.
    pub(crate) fn rest<Value: Read<'de>>(&mut self) -> Result<Vec<Value>, Access::Error> {
        let mut values = Vec::new();
        while let Some(value) = self.next()? {
            values.push(value);
        }
        Ok(values)
    }

    /// Skips the next element; whether there was one.
    pub(super) fn skip(&mut self) -> Result<bool, Access::Error> {
        let is_there = self.access.next_element::<IgnoredAny>();
        let is_there = is_there.inspect_err(|_| self.state.within(Segment::Index(self.count)))?.is_some();
        self.count += usize::from(is_there);
        Ok(is_there)
    }

    /// Fails if elements are left.
    fn end(&mut self) -> Result<(), Access::Error> {
        let needed = self.count;
        match self.access.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(self.state.fail(move |path| ReadError::ExtraElement { path, needed })),
        }
    }
}

/// An object being read.
pub(crate) struct Object<'c, Access> {
    pub(crate) state: &'c ParseState,
    pub(super) access: Access,
    /// The key just read.
    segment: Segment,
}

impl<'de, Access: MapAccess<'de>> Object<'_, Access> {
    /// The next key that is one of `keys`, as its index in them; values of others are skipped.
    pub(crate) fn key(&mut self, keys: &[&'static str]) -> Result<Option<usize>, Access::Error> {
        while let Some(found) = self.access.next_key_seed(KeySeed { keys })? {
            match found {
                Some(at) => {
                    self.segment = Segment::Key(keys[at]);
                    return Ok(Some(at));
                }
                None => self.skip()?,
            }
        }
        Ok(None)
    }

    /// The next key, whatever it is, and its value.
    pub(crate) fn named<Value: Read<'de>>(&mut self) -> Result<Option<(Cow<'de, str>, Value)>, Access::Error> {
        let Some(name) = self.access.next_key_seed(Seed::<Cow<'de, str>>::new(self.state))? else { return Ok(None) };
        self.state.count()?;
        let value = self.access.next_value_seed(Seed::new(self.state));
        let value = value.inspect_err(|_| self.state.within(Segment::Name(name.clone().into_owned())))?;
        Ok(Some((name, value)))
    }

    /// The object's first key, as its index in `known`, which it must be one of.
    pub(crate) fn only_key(&mut self, known: &'static [&'static str]) -> Result<usize, Access::Error> {
        match self.access.next_key_seed(KeySeed { keys: known })? {
            Some(Some(at)) => {
                self.segment = Segment::Key(known[at]);
                Ok(at)
            }
            _ => Err(self.state.fail(move |path| ReadError::UnknownKind { path, known })),
        }
    }

    /// Fails if there are more keys.
    pub(crate) fn end(&mut self) -> Result<(), Access::Error> {
        match self.access.next_key::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(self.state.fail(|path| ReadError::ExtraKey { path })),
        }
    }

    /// Skips the value of the key just read.
    pub(crate) fn skip(&mut self) -> Result<(), Access::Error> {
        self.access.next_value::<IgnoredAny>().map(|_| ())
    }

    /// The value of the key just read.
    pub(crate) fn value<Value: Read<'de>>(&mut self) -> Result<Value, Access::Error> {
        self.state.count()?;
        let value = self.access.next_value_seed(Seed::new(self.state));
        value.inspect_err(|_| self.state.within(self.segment.clone()))
    }

    /// The value of the key just read, which was not read before.
    pub(crate) fn once<Value: Read<'de>>(
        &mut self,
        key: &'static str,
        slot: &mut Option<Value>,
    ) -> Result<(), Access::Error> {
        if slot.is_some() {
            return Err(self.state.fail(move |path| ReadError::DuplicateKey { path, key }));
        }
        *slot = Some(self.value()?);
        Ok(())
    }

    /// The value that was read for `key`.
    pub(crate) fn take<Value>(&self, key: &'static str, value: Option<Value>) -> Result<Value, Access::Error> {
        value.ok_or_else(|| self.state.fail(move |path| ReadError::MissingKey { path, key }))
    }
}

/// Reads one whole text.
pub(crate) fn decode<'de, Value: Read<'de>>(text: &'de str, state: &ParseState) -> Result<Value, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let decoded = Seed::new(state).deserialize(&mut deserializer);
    decoded.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| state.error(error, text.len()))
}

/// Reads a key as its index in known ones.
struct KeySeed<'k> {
    keys: &'k [&'static str],
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<Error: de::Error>(self, text: &str) -> Result<Option<usize>, Error> {
        Ok(self.keys.iter().position(|key| *key == text))
    }
}

/// Reads an object with fixed keys: `fields!(object, { "key" => name, … })` binds the value of each key to `name`. Keys
/// after `optional` may be missing: their names are bound to an `Option`.
macro_rules! fields {
    ($object:expr, { $($key:literal => $slot:ident),+ $(,)? }) => {
        $(let mut $slot = None;)+
        {
            let keys = [$($key),+];
            while let Some(at) = $object.key(&keys)? {
                let mut expected = 0..;
                $(if Some(at) == expected.next() {
                    $object.once($key, &mut $slot)?;
                })+
            }
        }
        $(let $slot = $object.take($key, $slot)?;)+
    };
    ($object:expr, { $($key:literal => $slot:ident),* $(,)? }, optional { $($other:literal => $maybe:ident),+ $(,)? }) => {
        $(let mut $slot = None;)*
        $(let mut $maybe = None;)+
        {
            let keys = [$($key,)* $($other),+];
            while let Some(at) = $object.key(&keys)? {
                let mut expected = 0..;
                $(if Some(at) == expected.next() {
                    $object.once($key, &mut $slot)?;
                })*
                $(if Some(at) == expected.next() {
                    $object.once($other, &mut $maybe)?;
                })+
            }
        }
        $(let $slot = $object.take($key, $slot)?;)*
    };
}
pub(crate) use fields;

pub(crate) fn out_of_range<Error: de::Error>(state: &ParseState, found: i128, needed: &'static str) -> Error {
    state.fail(move |path| ReadError::OutOfRange { path, found, needed })
}
