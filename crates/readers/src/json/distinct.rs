//! Values by name, many of which have the same JSON text: each text is parsed once.

use std::borrow::Cow;
use std::rc::Rc;

use hashbrown::HashMap;
use serde::de::{DeserializeSeed, Error, MapAccess};
use serde_json::value::RawValue;

use super::read::{Object, Read, Seed};
use super::state::Segment;

/// Values by name, in the file's order.
pub(crate) struct Distinct<'de, Value>(pub(crate) Vec<(Cow<'de, str>, Rc<Value>)>);

impl<'de, Value: Read<'de>> Read<'de> for Distinct<'de, Value> {
    const NEEDED: &'static str = "an object";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let mut values = Vec::new();
        let mut known: HashMap<&'de str, Rc<Value>> = HashMap::new();
        let state = object.state;
        while let Some(name) = object.access.next_key_seed(Seed::<Cow<'de, str>>::new(state))? {
            state.count()?;
            let within = || state.within(Segment::Name(name.clone().into_owned()));
            let text = object.access.next_value::<&'de RawValue>().inspect_err(|_| within())?.get();
            let value = match known.get(text) {
                Some(value) => Rc::clone(value),
                None => {
                    let read = Seed::new(state).deserialize(&mut serde_json::Deserializer::from_str(text));
                    let value = Rc::new(read.map_err(|error| {
                        within();
                        Access::Error::custom(error)
                    })?);
                    known.insert(text, Rc::clone(&value));
                    value
                }
            };
            values.push((name, value));
        }
        Ok(Distinct(values))
    }
}
