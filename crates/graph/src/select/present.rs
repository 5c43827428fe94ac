//! The sizes a model has, as text for messages.

use crate::model::{Input, Model, Origin};

/// The sizes that can be chosen.
pub(super) fn present(model: &Model) -> String {
    if model.symbols.is_empty() {
        let made = match model.origin {
            Origin::Capture => "captured",
            Origin::Archive => "exported",
            Origin::Script => "recorded",
        };
        return format!("it was {made} at one size only: {}", shapes(model));
    }
    let inputs = model.inputs.iter().chain(&model.targets);
    let symbols: Vec<&str> = model.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    let shapes: Vec<String> = inputs.map(|input| format!("{} {}", input.name, shape_text(model, input))).collect();
    format!("it has {} in {}", symbols.join(", "), shapes.join(", "))
}

/// The shapes of the example.
pub(super) fn shapes(model: &Model) -> String {
    let inputs = model.inputs.iter().chain(&model.targets);
    inputs.map(|input| format!("{} {}", input.name, times(&input.example))).collect::<Vec<_>>().join(", ")
}

/// Sizes as `--size` takes them.
pub(super) fn times(sizes: &[i64]) -> String {
    if sizes.is_empty() {
        return "scalar".to_owned();
    }
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// The shape of an input, with symbols.
pub(super) fn shape_text(model: &Model, input: &Input) -> String {
    let sizes: Vec<String> = input.shape.iter().map(|size| model.size_text(*size)).collect();
    format!("[{}]", sizes.join(", "))
}

/// The range between two values, in either order.
pub(super) fn range_text(one: Option<i64>, other: Option<i64>) -> String {
    match (one, other) {
        (Some(one), Some(other)) => format!("{} to {}", one.min(other), one.max(other)),
        (Some(least), None) => format!("{least} and more"),
        (None, Some(most)) => format!("up to {most}"),
        (None, None) => "sizes of 64 bits".to_owned(),
    }
}
