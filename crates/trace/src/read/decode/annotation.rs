//! `external_annotations`: what the program marked.

use super::decoder::Decoder;
use super::field;
use super::key::Key;
use super::path::Path;
use crate::read::error::ReadError;
use crate::read::pickle::Value;
use crate::read::pickle::heap::Container;
use crate::snapshot::{Annotation, StringId};

impl Decoder {
    /// The annotations in the list `value`; `None` gives none. Each key may be missing: texts are then empty, numbers 0.
    pub(crate) fn annotations(&mut self, value: Value, path: &Path<'_>) -> Result<Vec<Annotation>, ReadError> {
        if value == Value::NONE {
            return Ok(Vec::new());
        }
        let (list, count) = self.open_list(value, path)?;
        let mut annotations = Vec::with_capacity(count);
        for index in 0..count {
            annotations.push(self.annotation(self.item(list, index), &path.index(index))?);
        }
        Ok(annotations)
    }

    fn annotation(&mut self, value: Value, path: &Path<'_>) -> Result<Annotation, ReadError> {
        let (dict, _) = self.open_dict(value, "an annotation", path)?;
        let mut annotation =
            Annotation { device: 0, stage: StringId::default(), name: StringId::default(), time_us: 0 };
        let Container::Values(entries) = self.heap.dict(dict) else { return Ok(annotation) };
        for entry in entries.chunks_exact(2) {
            let (heap, value) = (&self.heap, entry[1]);
            match Key::of(entry[0]) {
                Some(key @ Key::Device) => annotation.device = field::whole(value, heap, &path.key(key))?,
                Some(key @ Key::Stage) => annotation.stage = field::optional_text(value, heap, &path.key(key))?,
                Some(key @ Key::Name) => annotation.name = field::optional_text(value, heap, &path.key(key))?,
                Some(key @ Key::TimeUs) => annotation.time_us = field::whole(value, heap, &path.key(key))?,
                _ => {}
            }
        }
        Ok(annotation)
    }
}
