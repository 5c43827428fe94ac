//! Reads `config.json` of Hugging Face models: the families that [`families`] knows, each from a template.
//!
//! A template is a capture of three layers whose sizes are expressions of the configuration's (`make.py`); `template` puts
//! the configuration's sizes in, `expand` makes as many layers as it says. What a configuration asks for that no template
//! has is refused by name.

mod decoders;
mod encoders;
pub(crate) mod error;
mod expand;
mod families;
mod fields;
mod join;
mod llama;
mod order;
mod packed_templates;
mod request;
mod template;
mod windows;

pub use error::ConfigError;

use serde_json::{Map, Value};

use request::Request;
use vramfit_graph::model::Model;

/// The configuration in `text`, if that is what it holds: a JSON object with a `model_type` and no `format`.
pub(super) fn found(text: &str) -> Option<Map<String, Value>> {
    let Ok(Value::Object(config)) = serde_json::from_str(text) else { return None };
    (config.contains_key("model_type") && !config.contains_key("format")).then_some(config)
}

/// The model of a configuration.
pub(super) fn read(config: &Map<String, Value>) -> Result<Model, ConfigError> {
    let request = families::request(config)?;
    let mut model = made(&request, &request.template)?;
    if let Some(window) = request.window {
        let name = format!("{}{BEYOND}", request.template);
        model = join::joined(model, made(&request, &name)?, "seq", window)
            .ok_or(ConfigError::Template { name, source: None })?;
    }
    if let Some((from, to)) = request.renamed {
        template::rename_classes(&mut model, from, to);
    }
    for variant in &mut model.variants {
        variant.causes.extend_from_slice(&request.causes);
    }
    model.notes.extend_from_slice(&request.notes);
    Ok(model)
}

/// The ending of the name of a template for sequences as long as the window or longer.
const BEYOND: &str = "-beyond";

/// A template with a request's sizes and layers.
fn made(request: &Request, name: &str) -> Result<Model, ConfigError> {
    let unusable = |source| ConfigError::Template { name: name.to_owned(), source };
    let packed = packed_templates::packed(name, request.dtype).ok_or_else(|| unusable(None))?;
    let template = crate::packed::unpack_difference(packed, packed_templates::named)
        .map_err(|error| unusable(Some(error.into())))?;
    let mut model = template::bound(template, &request.sizes).ok_or(ConfigError::TooLarge)?;
    if let Some(dtype) = request.dtype.filter(|_| !packed_templates::has_half_forms(name)) {
        template::build_in(&mut model, dtype);
    }
    request.stacks.iter().try_fold(model, |model, stack| expand::expand(&model, stack).ok_or_else(|| unusable(None)))
}
