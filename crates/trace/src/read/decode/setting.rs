//! `allocator_settings`, kept as they are.

use super::decoder::Decoder;
use super::field;
use super::path::Path;
use crate::read::error::ReadError;
use crate::read::pickle::heap::Container;
use crate::read::pickle::{Kind, Value};
use crate::snapshot::Setting;

/// PyTorch nests settings two levels deep.
const DEEPEST: usize = 16;

/// PyTorch has a dozen settings; a thousand times that, in values or bytes of text, means a damaged file.
const LARGEST: usize = 16 * 1024;

/// Reads settings, which become a tree: what is shared is copied, so depth and size are counted.
struct Settings<'a> {
    decoder: &'a Decoder,
    left: usize,
}

impl Decoder {
    /// The settings that the dict `value` holds, by name; `None` gives none.
    pub(crate) fn settings(&self, value: Value, path: &Path<'_>) -> Result<Vec<(String, Setting)>, ReadError> {
        let mut settings = Settings { decoder: self, left: LARGEST };
        match settings.read(value, DEEPEST, path)? {
            Setting::None => Ok(Vec::new()),
            Setting::Map(entries) => Ok(entries),
            _ => Err(field::wrong_type(value, &self.heap, "a dict", path)),
        }
    }
}

impl Settings<'_> {
    fn read(&mut self, value: Value, depth: usize, path: &Path<'_>) -> Result<Setting, ReadError> {
        if depth == 0 {
            return Err(ReadError::NestedTooDeeply { path: path.to_string(), limit: DEEPEST });
        }
        self.spend(1, path)?;
        let heap = &self.decoder.heap;
        let kind = heap.kind(value);
        Ok(match kind {
            Kind::None => Setting::None,
            Kind::Bool(truth) => Setting::Bool(truth),
            Kind::Int(number) => Setting::Int(number),
            Kind::Large(number) => Setting::Text(number.to_string()),
            Kind::Float(number) => Setting::Float(number),
            Kind::Text(id) => Setting::Text(self.text(heap.strings.get(id), path)?),
            Kind::Huge | Kind::Bytes | Kind::Set => Setting::Text(kind.name().to_owned()),
            Kind::Tuple { start, length } => self.list(heap.tuple(start, length), depth, path)?,
            Kind::List(list) => match heap.list(list) {
                Container::Values(items) => self.list(items, depth, path)?,
                Container::Record(_) => Setting::List(Vec::new()),
            },
            Kind::Dict(dict) => match heap.dict(dict) {
                Container::Values(entries) => self.map(entries, depth, path)?,
                Container::Record(_) => Setting::Map(Vec::new()),
            },
        })
    }

    fn list(&mut self, items: &[Value], depth: usize, path: &Path<'_>) -> Result<Setting, ReadError> {
        let mut list = Vec::new();
        for (index, &item) in items.iter().enumerate() {
            list.push(self.read(item, depth - 1, &path.index(index))?);
        }
        Ok(Setting::List(list))
    }

    fn map(&mut self, entries: &[Value], depth: usize, path: &Path<'_>) -> Result<Setting, ReadError> {
        let mut map: Vec<(String, Setting)> = Vec::new();
        for entry in entries.chunks_exact(2) {
            let name = match self.decoder.heap.kind(entry[0]) {
                Kind::Text(id) => self.text(self.decoder.heap.strings.get(id), path)?,
                Kind::Int(number) => number.to_string(),
                _ => continue,
            };
            let setting = self.read(entry[1], depth - 1, &Path::Name(path, &name))?;
            match map.iter_mut().find(|(known, _)| *known == name) {
                Some((_, earlier)) => *earlier = setting,
                None => map.push((name, setting)),
            }
        }
        Ok(Setting::Map(map))
    }

    fn text(&mut self, text: &str, path: &Path<'_>) -> Result<String, ReadError> {
        self.spend(text.len(), path)?;
        Ok(text.to_owned())
    }

    fn spend(&mut self, amount: usize, path: &Path<'_>) -> Result<(), ReadError> {
        match self.left.checked_sub(amount) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(ReadError::SettingsTooLarge { path: path.to_string(), limit: LARGEST }),
        }
    }
}
