//! Variants: what was recorded, in which precision and mode.

use serde::de::{self, MapAccess, SeqAccess};

use super::argument::unknown_word;
use crate::json::{List, Object, ParseState, Read, fields};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Assumed, Mode, Precision, RecordedBackward, TensorId, Variant};

impl<'de> Read<'de> for Precision {
    const NEEDED: &'static str = "a precision";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
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
        found.ok_or_else(|| unknown_word(state, text, needed))
    }
}

impl<'de> Read<'de> for Mode {
    const NEEDED: &'static str = "a mode";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "train" => Ok(Mode::Train),
            "eval" => Ok(Mode::Eval),
            "eval-grad" => Ok(Mode::EvalGrad),
            _ => Err(unknown_word(state, text, "`train`, `eval` or `eval-grad`")),
        }
    }
}

impl<'de> Read<'de> for Assumed {
    const NEEDED: &'static str = "what is assumed";

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        match text {
            "least" => Ok(Assumed::Least),
            "most" => Ok(Assumed::Most),
            _ => Err(unknown_word(state, text, "`least` or `most`")),
        }
    }
}

impl<'de> Read<'de> for Variant {
    const NEEDED: &'static str = "a variant";

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, {
            "precision" => precision, "mode" => mode, "grad" => has_grad, "types" => types, "tensors" => tensors,
            "steps" => steps, "constants" => constants, "outputs" => outputs, "loss" => loss, "held" => held,
        }, optional { "assumed" => assumed, "causes" => causes, "functions" => functions });
        let assumed: Option<Assumed> = assumed;
        let causes: Option<Vec<String>> = causes;
        let functions: Option<Vec<RecordedBackward>> = functions;
        let sections: [u32; 3] = [types, tensors, steps];
        let [types, tensors, steps] = sections.map(|section| section as usize);
        let Outputs { tensors: returned, released: let_go } = outputs;
        let ((outputs, paths), (released, _)) = (each_once(returned), each_once(let_go));
        Ok(Variant {
            precision,
            mode,
            assumed: assumed.unwrap_or_default(),
            reach: None,
            has_grad,
            types,
            tensors,
            steps,
            constants,
            outputs,
            paths,
            released,
            loss,
            held,
            late: Vec::new(),
            functions: functions.unwrap_or_default(),
            causes: causes.unwrap_or_default(),
        })
    }
}

/// Each tensor once, with its first companion.
fn each_once<Beside>(tensors: Vec<(TensorId, Beside)>) -> (Vec<TensorId>, Vec<Beside>) {
    let mut seen = std::collections::HashSet::new();
    tensors.into_iter().filter(|(tensor, _)| seen.insert(*tensor)).unzip()
}

/// The tensors within what the model returned, however nested: in order, with how each is reached, and in the order in which
/// Python frees them.
#[derive(Default)]
struct Outputs {
    tensors: Vec<(TensorId, String)>,
    released: Vec<(TensorId, ())>,
}

impl Outputs {
    /// Takes over the tensors of a part that is reached by `step`.
    fn take(&mut self, step: &str, part: &mut Outputs) {
        self.tensors.extend(part.tensors.drain(..).map(|(tensor, path)| (tensor, format!("{step}{path}"))));
    }
}

impl<'de> Read<'de> for Outputs {
    const NEEDED: &'static str = "a tensor, null or an object with a class and items";

    fn from_null<Error: de::Error>(_state: &ParseState) -> Result<Self, Error> {
        Ok(Outputs::default())
    }

    fn from_text<Error: de::Error>(state: &ParseState, text: &str) -> Result<Self, Error> {
        let tensor = TensorId::from_text(state, text)?;
        Ok(Outputs { tensors: vec![(tensor, String::new())], released: vec![(tensor, ())] })
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        fields!(object, { "class" => class, "items" => items }, optional { "keys" => has_keys });
        let (class, has_keys): (String, Option<bool>) = (class, has_keys);
        let mut outputs = Outputs::default();
        match items {
            Items::Listed(mut parts) => {
                parts.iter_mut().enumerate().for_each(|(at, part)| outputs.take(&format!("[{at}]"), part));
                // A list or tuple frees its items from its end.
                outputs.released = parts.into_iter().rev().flat_map(|part| part.released).collect();
            }
            Items::Named(parts) => {
                // Old captures do not have it.
                let has_keys = has_keys.unwrap_or_else(|| class == "dict" || class == "OrderedDict");
                for (name, mut part) in parts {
                    let step = if has_keys { format!("[{name:?}]") } else { format!(".{name}") };
                    outputs.take(&step, &mut part);
                    outputs.released.extend(part.released);
                }
            }
        }
        Ok(outputs)
    }
}

/// The parts of a returned object.
enum Items {
    /// Of a list or tuple.
    Listed(Vec<Outputs>),
    /// Of a dictionary, or an object's attributes.
    Named(Vec<(String, Outputs)>),
}

impl<'de> Read<'de> for Items {
    const NEEDED: &'static str = "a list or an object";

    fn from_list<Access: SeqAccess<'de>>(list: &mut List<'_, Access>) -> Result<Self, Access::Error> {
        let mut parts: Vec<Outputs> = Vec::new();
        while let Some(part) = list.next()? {
            parts.push(part);
        }
        Ok(Items::Listed(parts))
    }

    fn from_object<Access: MapAccess<'de>>(object: &mut Object<'_, Access>) -> Result<Self, Access::Error> {
        let mut parts: Vec<(String, Outputs)> = Vec::new();
        while let Some((name, part)) = object.named()? {
            parts.push((name.into_owned(), part));
        }
        Ok(Items::Named(parts))
    }
}
