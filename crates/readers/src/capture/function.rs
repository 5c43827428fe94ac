//! The recorded backwards of custom autograd functions.

use serde::de::MapAccess;

use crate::json::{Object, Read, fields};
use vramfit_graph::model::{RecordedBackward, TensorId};

impl<'de> Read<'de> for RecordedBackward {
    const NEEDED: &'static str = "the backward of a custom function";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "end" => end, "gradients" => gradients, "results" => results, "steps" => steps,
        }, optional { "arguments" => arguments, "kept" => kept });
        let (end, kept): (u32, Option<Vec<TensorId>>) = (end, kept);
        let kept = kept.unwrap_or_default();
        Ok(RecordedBackward { end: end as usize, arguments, kept, gradients, results, steps })
    }
}
