//! From JSON to values: what a type needs to say to be read, and the one visitor that reads them all.
//!
//! A type implements [`Read`] with those of its methods that fit what it accepts; everything else is a
//! [`ReadError::WrongType`] that says where, what was found and what was needed.

pub(super) mod context;
pub(super) mod distinct;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::ReadError;
use context::{Context, Segment};

/// A value that can be read from JSON, and may borrow from its text.
pub(super) trait Read<'de>: Sized {
    /// What is needed, for people.
    const NEEDED: &'static str;

    fn from_null<Error: de::Error>(context: &Context) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(context, "null"))
    }

    fn from_bool<Error: de::Error>(context: &Context, _value: bool) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(context, "a truth value"))
    }

    fn from_integer<Error: de::Error>(context: &Context, _value: i64) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(context, "an integer"))
    }

    fn from_float<Error: de::Error>(context: &Context, _value: f64) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(context, "a number with a fraction or beyond 64 bits"))
    }

    fn from_text<Error: de::Error>(context: &Context, _text: &str) -> Result<Self, Error> {
        Err(wrong_type::<Self, Error>(context, "a string"))
    }

    /// A text that stands in the file as it is, without escapes.
    fn from_borrowed<Error: de::Error>(context: &Context, text: &'de str) -> Result<Self, Error> {
        Self::from_text(context, text)
    }

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        Err(wrong_type::<Self, Access::Error>(list.context, "a list"))
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        Err(wrong_type::<Self, Access::Error>(object.context, "an object"))
    }
}

fn wrong_type<'de, Value: Read<'de>, Error: de::Error>(context: &Context, found: &'static str) -> Error {
    context.fail(move |path| ReadError::WrongType { path, found, needed: Value::NEEDED })
}

/// Reads one value.
pub(super) struct Seed<'c, Value> {
    context: &'c Context,
    value: PhantomData<Value>,
}

impl<'c, Value> Seed<'c, Value> {
    pub(super) fn new(context: &'c Context) -> Self {
        Seed { context, value: PhantomData }
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
        Value::from_null(self.context)
    }

    fn visit_bool<Error: de::Error>(self, value: bool) -> Result<Value, Error> {
        Value::from_bool(self.context, value)
    }

    fn visit_i64<Error: de::Error>(self, value: i64) -> Result<Value, Error> {
        Value::from_integer(self.context, value)
    }

    fn visit_u64<Error: de::Error>(self, value: u64) -> Result<Value, Error> {
        match i64::try_from(value) {
            Ok(value) => Value::from_integer(self.context, value),
            Err(_) => Err(out_of_range(self.context, value.into(), "a number up to 9223372036854775807")),
        }
    }

    fn visit_f64<Error: de::Error>(self, value: f64) -> Result<Value, Error> {
        Value::from_float(self.context, value)
    }

    fn visit_str<Error: de::Error>(self, text: &str) -> Result<Value, Error> {
        Value::from_text(self.context, text)
    }

    fn visit_borrowed_str<Error: de::Error>(self, text: &'de str) -> Result<Value, Error> {
        Value::from_borrowed(self.context, text)
    }

    fn visit_seq<Access: SeqAccess<'de>>(self, access: Access) -> Result<Value, Access::Error> {
        let mut list = List { context: self.context, access, count: 0 };
        let value = Value::from_list(&mut list)?;
        list.end()?;
        Ok(value)
    }

    fn visit_map<Access: MapAccess<'de>>(self, access: Access) -> Result<Value, Access::Error> {
        Value::from_object(&mut Object { context: self.context, access, segment: Segment::Key("") })
    }
}

/// A list being read.
pub(super) struct List<'c, Access> {
    pub(super) context: &'c Context,
    access: Access,
    count: usize,
}

impl<'de, Access: SeqAccess<'de>> List<'_, Access> {
    /// The next element, if there is one.
    pub(super) fn next<Value: Read<'de>>(&mut self) -> Result<Option<Value>, Access::Error> {
        self.context.count()?;
        match self.access.next_element_seed(Seed::new(self.context)) {
            Ok(value) => {
                self.count += usize::from(value.is_some());
                Ok(value)
            }
            Err(error) => {
                self.context.within(Segment::Index(self.count));
                Err(error)
            }
        }
    }

    /// The next element, which must be there.
    pub(super) fn required<Value: Read<'de>>(&mut self, needed: &'static str) -> Result<Value, Access::Error> {
        let found = self.count;
        let missing = || self.context.fail(move |path| ReadError::MissingElement { path, found, needed });
        self.next()?.ok_or_else(missing)
    }

    /// All elements that are left.
    pub(super) fn rest<Value: Read<'de>>(&mut self) -> Result<Vec<Value>, Access::Error> {
        let mut values = Vec::new();
        while let Some(value) = self.next()? {
            values.push(value);
        }
        Ok(values)
    }

    /// Passes over the next element; whether there was one.
    fn skip(&mut self) -> Result<bool, Access::Error> {
        let is_there = self.access.next_element::<IgnoredAny>();
        let is_there = is_there.inspect_err(|_| self.context.within(Segment::Index(self.count)))?.is_some();
        self.count += usize::from(is_there);
        Ok(is_there)
    }

    /// Makes sure that no elements are left.
    fn end(&mut self) -> Result<(), Access::Error> {
        let needed = self.count;
        match self.access.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(self.context.fail(move |path| ReadError::ExtraElement { path, needed })),
        }
    }
}

/// An object being read.
pub(super) struct Object<'c, Access> {
    pub(super) context: &'c Context,
    access: Access,
    /// The key just read.
    segment: Segment,
}

impl<'de, Access: MapAccess<'de>> Object<'_, Access> {
    /// The next key that is one of `keys`, as its place among them; values of others are skipped.
    pub(super) fn key(&mut self, keys: &[&'static str]) -> Result<Option<usize>, Access::Error> {
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
    pub(super) fn named<Value: Read<'de>>(&mut self) -> Result<Option<(Cow<'de, str>, Value)>, Access::Error> {
        let Some(name) = self.access.next_key_seed(Seed::<Cow<'de, str>>::new(self.context))? else { return Ok(None) };
        self.context.count()?;
        let value = self.access.next_value_seed(Seed::new(self.context));
        let value = value.inspect_err(|_| self.context.within(Segment::Name(name.clone().into_owned())))?;
        Ok(Some((name, value)))
    }

    /// The object's first key, as its place among `known`, which it must be one of.
    pub(super) fn only_key(&mut self, known: &'static [&'static str]) -> Result<usize, Access::Error> {
        match self.access.next_key_seed(KeySeed { keys: known })? {
            Some(Some(at)) => {
                self.segment = Segment::Key(known[at]);
                Ok(at)
            }
            _ => Err(self.context.fail(move |path| ReadError::UnknownKind { path, known })),
        }
    }

    /// Makes sure that there are no more keys.
    pub(super) fn end(&mut self) -> Result<(), Access::Error> {
        match self.access.next_key::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(self.context.fail(|path| ReadError::ExtraKey { path })),
        }
    }

    /// Passes over the value of the key just read.
    pub(super) fn skip(&mut self) -> Result<(), Access::Error> {
        self.access.next_value::<IgnoredAny>().map(|_| ())
    }

    /// The value of the key just read.
    pub(super) fn value<Value: Read<'de>>(&mut self) -> Result<Value, Access::Error> {
        self.context.count()?;
        let value = self.access.next_value_seed(Seed::new(self.context));
        value.inspect_err(|_| self.context.within(self.segment.clone()))
    }

    /// The value of the key just read, which was not read before.
    pub(super) fn once<Value: Read<'de>>(
        &mut self,
        key: &'static str,
        place: &mut Option<Value>,
    ) -> Result<(), Access::Error> {
        if place.is_some() {
            return Err(self.context.fail(move |path| ReadError::DuplicateKey { path, key }));
        }
        *place = Some(self.value()?);
        Ok(())
    }

    /// The value that was read for `key`.
    pub(super) fn take<Value>(&self, key: &'static str, place: Option<Value>) -> Result<Value, Access::Error> {
        place.ok_or_else(|| self.context.fail(move |path| ReadError::MissingKey { path, key }))
    }
}

/// Values by name, in the file's order.
pub(super) struct Named<'de, Value>(pub(super) Vec<(Cow<'de, str>, Value)>);

/// A list of lists, of which those that [`Context::need_only`] leaves out are passed over and left empty.
pub(super) struct Sections<Row>(pub(super) Vec<Vec<Row>>);

impl<'de, Row: Read<'de>> Read<'de> for Sections<Row> {
    const NEEDED: &'static str = "a list";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let only = list.context.needed_only();
        let mut sections = Vec::new();
        loop {
            let section = match only.is_none_or(|only| only == sections.len()) {
                true => list.next()?,
                false => list.skip()?.then(Vec::new),
            };
            match section {
                Some(section) => sections.push(section),
                None => return Ok(Sections(sections)),
            }
        }
    }
}

/// Reads one whole text.
pub(super) fn decode<'de, Value: Read<'de>>(text: &'de str, context: &Context) -> Result<Value, ReadError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let decoded = Seed::new(context).deserialize(&mut deserializer);
    decoded.and_then(|value| deserializer.end().map(|()| value)).map_err(|error| context.error(&error, text.len()))
}

/// Reads a key as its place among known ones.
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

/// Reads an object with fixed keys: `fields!(object, { "key" => place, … })` gives the value of each key to `place`. Keys
/// after `optional` may be missing: their places are an `Option`.
macro_rules! fields {
    ($object:expr, { $($key:literal => $place:ident),+ $(,)? }) => {
        $(let mut $place = None;)+
        {
            let keys = [$($key),+];
            while let Some(at) = $object.key(&keys)? {
                let mut expected = 0..;
                $(if Some(at) == expected.next() {
                    $object.once($key, &mut $place)?;
                })+
            }
        }
        $(let $place = $object.take($key, $place)?;)+
    };
    ($object:expr, { $($key:literal => $place:ident),* $(,)? }, optional { $($other:literal => $maybe:ident),+ $(,)? }) => {
        $(let mut $place = None;)*
        $(let mut $maybe = None;)+
        {
            let keys = [$($key,)* $($other),+];
            while let Some(at) = $object.key(&keys)? {
                let mut expected = 0..;
                $(if Some(at) == expected.next() {
                    $object.once($key, &mut $place)?;
                })*
                $(if Some(at) == expected.next() {
                    $object.once($other, &mut $maybe)?;
                })+
            }
        }
        $(let $place = $object.take($key, $place)?;)*
    };
}
pub(super) use fields;

pub(super) fn out_of_range<Error: de::Error>(context: &Context, found: i128, needed: &'static str) -> Error {
    context.fail(move |path| ReadError::OutOfRange { path, found, needed })
}
