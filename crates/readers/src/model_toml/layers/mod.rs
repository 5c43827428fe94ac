//! The layers that can be sketched, each as torch.nn has it: its arguments, its weights, the calls it makes.

mod activation;
mod attention;
mod convolution;
mod linear;
mod norm;
mod pool;
mod recurrent;
mod shape;

use super::call::LayerCall;
use super::error::{SketchError, near};
use super::node::Node;

/// Builds a layer of a family; `None` where its name is of another.
type Family = fn(&LayerCall, &str) -> Option<Result<Node, SketchError>>;

/// The families, with the names of their layers.
const FAMILIES: [(Family, &[&str]); 8] = [
    (linear::build, &linear::NAMES),
    (convolution::build, &convolution::NAMES),
    (norm::build, &norm::NAMES),
    (pool::build, &pool::NAMES),
    (activation::build, &activation::NAMES),
    (shape::build, &shape::NAMES),
    (recurrent::build, &recurrent::NAMES),
    (attention::build, &attention::NAMES),
];

/// The layer of a call; `location` is where it is in the file.
pub(super) fn build(call: &LayerCall, location: &str) -> Result<Node, SketchError> {
    for (family, names) in FAMILIES {
        if names.contains(&call.class.as_str())
            && let Some(built) = family(call, location)
        {
            return built;
        }
    }
    let known: Vec<&'static str> = FAMILIES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    Err(SketchError::UnknownLayer {
        location: location.to_owned(),
        class: call.class.clone(),
        near: near(&call.class, &known),
    })
}
