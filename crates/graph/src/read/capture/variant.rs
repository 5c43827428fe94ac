//! Variants: what was recorded, in which precision and mode.

use serde::de::{self, MapAccess, SeqAccess};

use super::argument::unknown_word;
use crate::dtype::Dtype;
use crate::model::{Mode, Precision, TensorId, Variant};
use crate::read::json::context::Context;
use crate::read::json::{List, Object, Read, fields};

impl<'de> Read<'de> for Precision {
    const NEEDED: &'static str = "a precision";

    fn from_text<Error: de::Error>(context: &Context, text: &str) -> Result<Self, Error> {
        let floating = |name: &str| {
            let known = [Dtype::Float32, Dtype::Bfloat16, Dtype::Float16, Dtype::Float64];
            known.into_iter().find(|dtype| dtype.short_name() == name)
        };
        let found = match text.strip_prefix("amp-") {
            Some(name) => floating(name).map(Precision::Autocast),
            None if text == "as-built" => Some(Precision::AsBuilt),
            None => floating(text).map(Precision::Cast),
        };
        let needed = "`as-built`, `fp32`, `bf16`, `fp16`, `amp-bf16` or `amp-fp16`";
        found.ok_or_else(|| unknown_word(context, text, needed))
    }
}

impl<'de> Read<'de> for Mode {
    const NEEDED: &'static str = "a mode";

    fn from_text<Error: de::Error>(context: &Context, text: &str) -> Result<Self, Error> {
        match text {
            "train" => Ok(Mode::Train),
            "eval" => Ok(Mode::Eval),
            "eval-grad" => Ok(Mode::EvalGrad),
            _ => Err(unknown_word(context, text, "`train`, `eval` or `eval-grad`")),
        }
    }
}

impl<'de> Read<'de> for Variant {
    const NEEDED: &'static str = "a variant";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "precision" => precision, "mode" => mode, "grad" => has_grad, "types" => types, "tensors" => tensors,
            "steps" => steps, "constants" => constants, "outputs" => outputs, "loss" => loss, "held" => held,
        }, optional { "causes" => causes });
        let causes: Option<Vec<String>> = causes;
        let (types, tensors, steps): (u32, u32, u32) = (types, tensors, steps);
        let Outputs { tensors: outputs, released } = outputs;
        Ok(Variant {
            precision,
            mode,
            has_grad,
            types: types as usize,
            tensors: tensors as usize,
            steps: steps as usize,
            constants,
            outputs: each_once(outputs),
            released: each_once(released),
            loss,
            held,
            late: Vec::new(),
            causes: causes.unwrap_or_default(),
        })
    }
}

fn each_once(tensors: Vec<TensorId>) -> Vec<TensorId> {
    let mut seen = std::collections::HashSet::new();
    tensors.into_iter().filter(|tensor| seen.insert(*tensor)).collect()
}

/// The tensors within what the model returned, however nested: in order, and in the order in which Python lets go.
#[derive(Default)]
struct Outputs {
    tensors: Vec<TensorId>,
    released: Vec<TensorId>,
}

impl<'de> Read<'de> for Outputs {
    const NEEDED: &'static str = "a tensor, null or an object with a class and items";

    fn from_null<Error: de::Error>(_context: &Context) -> Result<Self, Error> {
        Ok(Outputs::default())
    }

    fn from_text<Error: de::Error>(context: &Context, text: &str) -> Result<Self, Error> {
        TensorId::from_text(context, text).map(|tensor| Outputs { tensors: vec![tensor], released: vec![tensor] })
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "class" => class, "items" => items });
        let (_, Items(outputs)): (String, Items) = (class, items);
        Ok(outputs)
    }
}

/// The parts of a returned object: a list, or an object with any keys.
struct Items(Outputs);

impl<'de> Read<'de> for Items {
    const NEEDED: &'static str = "a list or an object";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let mut parts: Vec<Outputs> = Vec::new();
        while let Some(part) = list.next()? {
            parts.push(part);
        }
        // A list or tuple lets go of its items from its end.
        let released = parts.iter().rev().flat_map(|part| &part.released).copied().collect();
        let tensors = parts.into_iter().flat_map(|part| part.tensors).collect();
        Ok(Items(Outputs { tensors, released }))
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let mut outputs = Outputs::default();
        let mut count = 0;
        while object.any_key(count)? {
            let part: Outputs = object.value()?;
            outputs.tensors.extend(part.tensors);
            outputs.released.extend(part.released);
            count += 1;
        }
        Ok(Items(outputs))
    }
}
